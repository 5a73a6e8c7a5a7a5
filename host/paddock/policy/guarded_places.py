"""The one table of the files and folders of a user that other programs run by themselves, each with its reason.

A folder is in it if it exists for another program alone, a file if it names or holds code that is run. Code that runs
only when a person asks for it by name (a Makefile, scripts of a package, `.venv`) is not in it: people grant a folder
for work on such files, and the user sees them before they run. Of a folder that has both (`.github`), the table has the
part that runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GIT: Final = ".git"


@dataclass(frozen=True, slots=True)
class GuardedPlace:
    """Names of files and folders, relative to where they are looked for, and `runner`, what runs their contents."""

    names: tuple[str, ...]
    runner: str


GIT_COMMAND: Final = "your next git command"
_EDITOR: Final = "your editor, when it opens the folder,"

AT_HOME: Final = (
    GuardedPlace(
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".kshrc"),
            *(".mkshrc", ".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login"),
            ".config/fish",
        ),
        "your next shell",
    ),
    GuardedPlace(
        (
            *(".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".pam_environment", ".config/environment.d"),
            *(".config/autostart", ".config/systemd/user", ".local/share/systemd/user"),
        ),
        "your next login",
    ),
    GuardedPlace((".local/bin",), "each command that is named like a file in it"),
    GuardedPlace((".ssh",), "your next ssh command, and each login by its keys,"),
    GuardedPlace((".gitconfig", ".config/git"), GIT_COMMAND),
    GuardedPlace((".vimrc", ".vim", ".config/nvim", ".emacs", ".emacs.d", ".tmux.conf", ".screenrc"), "your editor"),
    GuardedPlace((".sqliterc", ".psqlrc"), "your next database shell"),
)
"""In the user's home, and at the top of each granted folder, which may be a copy or a part of it."""

AT_PROJECT: Final = (
    GuardedPlace((GIT,), GIT_COMMAND),  # its hooks, and commands that its configuration names
    GuardedPlace((".hg", ".jj"), "your next hg or jj command"),
    GuardedPlace((".husky", ".githooks", ".lefthook", "lefthook.yml", ".pre-commit-config.yaml"), GIT_COMMAND),
    GuardedPlace((".vscode", ".idea", ".fleet", ".zed", ".helix"), _EDITOR),  # tasks, and the interpreter of each
    GuardedPlace((".devcontainer",), _EDITOR),  # commands on the machine itself, and the mounts of a container
    GuardedPlace((".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el"), _EDITOR),
    GuardedPlace((".envrc", ".direnv"), "your shell, when it enters the folder,"),
    GuardedPlace((".gdbinit", ".lldbinit", ".pdbrc"), "your debugger, when it is started there,"),
    GuardedPlace((".Rprofile", ".irbrc", ".pryrc"), "your interpreter, when it is started there,"),
    # Hooks and servers of tools, which are commands; and where modules come from.
    GuardedPlace(
        (
            *(".claude", ".cursor", ".codex", ".gemini", ".mcp.json", ".windsurf", ".roo", ".kiro", ".continue"),
            *(".opencode", "opencode.json", ".aider.conf.yml"),
        ),
        "your coding agent",
    ),
    GuardedPlace((".amplifier/settings.yaml", ".amplifier/settings.local.yaml"), "Amplifier"),
    GuardedPlace(
        (
            *(".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".gitlab-ci.yml"),
            *(".circleci", ".buildkite", ".woodpecker", ".woodpecker.yml", ".drone.yml", ".travis.yml"),
            *("azure-pipelines.yml", "bitbucket-pipelines.yml"),
        ),
        "the server you push to, with the repository's secrets,",
    ),
)
"""At the top of each granted folder, and of each repository in it."""


def runner_of(guarded: Path) -> str:
    """Return what runs the contents of a guarded path: git, for a repository recognised by its contents alone."""
    return _runner_by_name(guarded) or GIT_COMMAND


def runner_opened(path: Path, around: Path, is_repository: Callable[[Path], bool]) -> str:
    """Return what would run code of a module that may write to `path`, itself or a part of a guarded place in `around`.

    Empty where none of the user's own programs runs anything there by itself.
    """
    if is_repository(path):
        return GIT_COMMAND
    places = (one for one in (path, *path.parents) if one == path or around in one.parents)
    return next((runner for place in places if (runner := _runner_by_name(place))), "")


def _runner_by_name(path: Path) -> str:
    for place in (*AT_PROJECT, *AT_HOME):
        for name in place.names:
            if path.parts[-name.count("/") - 1 :] == tuple(name.split("/")):
                return place.runner
    return ""
