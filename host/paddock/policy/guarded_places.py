"""The one table of the files and folders of a user that other programs run by themselves, each with its reason.

A folder is in it if it exists for another program alone, a file if it names or holds code that is run. Code that runs
only when a person asks for it by name (a Makefile, scripts of a package, `.venv`) is not in it: people grant a folder
for work on such files, and the user sees them before they run. Of a folder that has both (`.github`), the table has the
part that runs.
"""

from __future__ import annotations

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
ANY_PROGRAM_OF_YOURS: Final = "a program of yours, such as git,"
"""The runner of what no table names: the target of a link, or what git's configuration names."""
_HG_OR_JJ: Final = "your next hg or jj command"
_EDITOR: Final = "your editor, when it opens the folder,"
_SHELL_IN_FOLDER: Final = "your shell, when it enters the folder,"
_DEBUGGER: Final = "your debugger, when it is started there,"
_INTERPRETER: Final = "your interpreter, when it is started there,"

AT_HOME: Final = (
    GuardedPlace(
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".kshrc"),
            *(".mkshrc", ".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login"),
            *(".bash_completion", ".config/fish", ".config/nushell", ".config/powershell"),
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
    GuardedPlace((".hgrc", ".config/hg", ".jjconfig.toml", ".config/jj"), _HG_OR_JJ),
    GuardedPlace(
        (
            *(".vimrc", ".vim", ".config/vim", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".tmux.conf"),
            *(".config/tmux", ".screenrc", ".config/helix", ".config/zed", ".config/Code/User"),
        ),
        "your editor",
    ),
    GuardedPlace((".direnvrc", ".config/direnv", ".config/mise"), _SHELL_IN_FOLDER),
    GuardedPlace((".sqliterc", ".psqlrc"), "your next database shell"),
    GuardedPlace((".config/gdb",), _DEBUGGER),
    GuardedPlace((".ipython",), _INTERPRETER),
)
"""In the user's home, and at the top of each granted folder, which may be a copy or a part of it."""

AT_PROJECT: Final = (
    GuardedPlace((GIT,), GIT_COMMAND),  # its hooks, and commands that its configuration names
    GuardedPlace((".husky", ".githooks", ".lefthook", "lefthook.yml", ".pre-commit-config.yaml"), GIT_COMMAND),
    GuardedPlace(
        (
            *(".github/workflows", ".github/actions", ".gitea/workflows", ".forgejo/workflows", ".gitlab-ci.yml"),
            *(".circleci", ".buildkite", ".woodpecker", ".woodpecker.yml", ".drone.yml", ".travis.yml"),
            *("azure-pipelines.yml", "bitbucket-pipelines.yml"),
        ),
        "the server you push to, with the repository's secrets,",
    ),
)
"""At the top of each granted folder, of each repository in it, and of the user's home."""

IN_ANY_FOLDER: Final = (
    GuardedPlace((".hg", ".jj"), _HG_OR_JJ),
    GuardedPlace((".vscode", ".idea", ".fleet", ".zed", ".helix"), _EDITOR),  # tasks, and the interpreter of each
    GuardedPlace((".devcontainer",), _EDITOR),  # commands on the machine itself, and the mounts of a container
    GuardedPlace((".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el"), _EDITOR),
    GuardedPlace((".envrc", ".direnv", "mise.toml", ".mise.toml", ".autoenv.zsh"), _SHELL_IN_FOLDER),
    GuardedPlace((".gdbinit", ".lldbinit", ".pdbrc"), _DEBUGGER),
    GuardedPlace((".Rprofile", ".irbrc", ".pryrc"), _INTERPRETER),
    # Hooks and servers of tools, which are commands; and where modules come from.
    GuardedPlace(
        (
            *(".claude", ".cursor", ".codex", ".gemini", ".mcp.json", ".windsurf", ".roo", ".kiro", ".continue"),
            *(".opencode", "opencode.json", ".aider.conf.yml"),
        ),
        "your coding agent",
    ),
    GuardedPlace((".amplifier/settings.yaml", ".amplifier/settings.local.yaml"), "Amplifier"),
)
"""There too, and in each folder that the search comes to: a program runs them wherever it is started or opened."""


def runner_by_name(path: Path) -> str:
    """Return what runs the contents of a path with a name of the tables; empty for any other."""
    for place in (*AT_PROJECT, *IN_ANY_FOLDER, *AT_HOME):
        for name in place.names:
            if path.parts[-name.count("/") - 1 :] == tuple(name.split("/")):
                return place.runner
    return ""
