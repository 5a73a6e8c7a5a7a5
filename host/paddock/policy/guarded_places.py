"""The tables of the files and folders of a user that other programs run by themselves, each with its reason.

A folder is in them if it exists for another program alone, a file if it names or holds code that is run, or has the
form of a program's settings (`.*.json`, `.*rc`). Code that runs only when a person asks for it by name (a Makefile,
scripts of a package, `.venv`) is not in them: people grant a folder for work on such files, and the user sees them
before they run.

In the user's home, where nothing is built, it is the other way round: each hidden name is guarded but those of `OPEN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

GIT: Final = ".git"


@dataclass(frozen=True, slots=True)
class GuardedPlace:
    """Names of files and folders, relative to where they are looked for, and `runner`, what runs their contents.

    A name without a slash may have wildcards; such a name of `IN_ANY_FOLDER` has none.
    """

    names: tuple[str, ...]
    runner: str


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """Hidden names that may be written to, and `of`: the tool that writes them, or why; a name may have wildcards."""

    names: tuple[str, ...]
    of: str


GIT_COMMAND: Final = "your next git command"
ANY_PROGRAM_OF_YOURS: Final = "a program of yours, such as git,"
"""The runner of what no table names: the target of a link, or what git's configuration names."""
A_READER: Final = "a program of yours that looks there"
"""The runner of a name that only looks like settings, and of a hidden name of the home that no table has."""
_HG_OR_JJ: Final = "your next hg or jj command"
_EDITOR: Final = "your editor, when it opens the folder,"
_SHELL_IN_FOLDER: Final = "your shell, when it enters the folder,"
_DEBUGGER: Final = "your debugger, when it is started there,"
_INTERPRETER: Final = "your interpreter, when it is started there,"
_AGENT: Final = "your coding agent"

AT_HOME: Final = (
    GuardedPlace(
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".kshrc"),
            *(".mkshrc", ".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login"),
            *(".bash_completion", ".bash*", ".zsh*"),
            *(".inputrc", ".config/fish", ".config/nushell", ".config/powershell", ".local/share/bash-completion"),
            *(".local/share/fish", ".local/share/zsh", ".local/share/zinit", ".local/share/powershell"),
        ),
        "your next shell",
    ),
    GuardedPlace(
        (
            *(".xinitrc", ".xprofile", ".xsession", ".xsessionrc", ".pam_environment", ".config/environment.d"),
            *(".config/autostart", ".config/systemd/user", ".local/share/systemd/user", ".local/share/applications"),
            *(".local/share/dbus-1", ".local/share/kservices5", ".local/share/kio", ".local/share/nautilus"),
            *(".local/share/gnome-shell", ".local/share/plasma", ".local/share/flatpak", ".local/share/thumbnailers"),
            *(".local/share/cinnamon", ".local/share/kwin", ".local/share/nemo", ".local/share/mime"),
            *(".local/share/vulkan", ".local/share/konsole", ".local/share/krita", ".local/share/xfce4"),
        ),
        "your next login",
    ),
    GuardedPlace(
        (
            *(".local/bin", ".local/share/pnpm", ".local/share/mise", ".local/share/uv", ".local/share/pipx"),
            *(".local/share/pypoetry", ".local/share/claude", ".local/share/sheldon", ".local/state/nix"),
            *(".local/share/asdf", ".local/share/fnm", ".local/share/nvm", ".local/share/gem"),
            *(".local/share/cargo/bin", ".local/share/npm/bin", ".local/share/go/bin"),
        ),
        "each command that is named like a file in it",
    ),
    GuardedPlace((".local/lib", ".ipython", ".pythonrc*", ".jupyter", ".local/share/jupyter"), _INTERPRETER),
    GuardedPlace((".docker",), "your next docker command"),
    GuardedPlace((".ssh",), "your next ssh command, and each login by its keys,"),
    GuardedPlace((".gitconfig", ".config/git"), GIT_COMMAND),
    GuardedPlace((".hgrc", ".config/hg", ".jjconfig.toml", ".config/jj"), _HG_OR_JJ),
    GuardedPlace(
        (
            *(".vimrc", ".vim", ".config/vim", ".config/nvim", ".emacs", ".emacs.d", ".config/emacs", ".tmux.conf"),
            *(
                ".config/tmux",
                ".screenrc",
                ".config/helix",
                ".config/zed",
                ".config/Code/User",
                ".config/VSCodium/User",
            ),
            *(".config/Cursor/User", ".local/share/nvim", ".local/share/JetBrains", ".local/share/code-server"),
            *(".local/share/emacs", ".local/share/vim", ".local/share/zed", ".local/share/zellij"),
        ),
        "your editor",
    ),
    GuardedPlace((".direnvrc", ".config/direnv", ".config/mise"), _SHELL_IN_FOLDER),
    GuardedPlace((".sqliterc", ".psqlrc"), "your next database shell"),
    GuardedPlace((".config/gdb", ".gdbearlyinit"), _DEBUGGER),
    GuardedPlace((".config/Claude",), _AGENT),  # the MCP servers that it starts
)
"""In the user's home, and at the top of each granted folder, which may be a copy or a part of it."""

SEARCHED_AT_HOME: Final = ("bin", "go/bin", ".local/bin")
"""In the user's home alone, in the search path of many shells; a link in one is guarded where it leads as well."""

AT_PROJECT: Final = (
    GuardedPlace((GIT,), GIT_COMMAND),  # its hooks, and commands that its configuration names
    GuardedPlace((".husky", ".githooks", ".lefthook", "lefthook.yml", ".pre-commit-config.yaml"), GIT_COMMAND),
    GuardedPlace((".husky*", ".git-hooks", ".lefthook*", "lefthook*.y*ml", "lefthook*.toml"), GIT_COMMAND),
    GuardedPlace((".pre-commit*", ".overcommit*", ".gitmodules", ".config/lefthook.yml"), GIT_COMMAND),
    GuardedPlace(
        (
            *(".github", ".github/workflows", ".github/actions", ".gitea", ".gitea/workflows", ".forgejo"),
            *(".forgejo/workflows", ".gitlab", ".gitlab-ci.yml", ".gitlab-ci*", ".circleci", ".buildkite"),
            *(".woodpecker", ".woodpecker.yml", ".woodpecker*", ".drone.yml", ".drone*", "azure-pipelines.yml"),
            *(".travis.yml", ".appveyor.yml", "appveyor.yml", "Jenkinsfile*", "azure-pipelines*.y*ml", ".azure*"),
            *("bitbucket-pipelines.yml", "cloudbuild*.y*ml", "buildspec*.y*ml", "codemagic.yaml", "bitrise.yml"),
            *(".cirrus.*", ".builds", ".tekton", ".semaphore", ".teamcity", ".harness"),
        ),
        "the server you push to, with the repository's secrets,",
    ),
    GuardedPlace((".vs", ".nvim*", ".sublime*", ".dir-locals*", ".bsp", ".clangd", ".theia", ".nova"), _EDITOR),
    GuardedPlace((".lsp", ".merlin", ".project", ".externalToolBuilders", "*.code-workspace", "hie.yaml"), _EDITOR),
    GuardedPlace((".env", ".env.*", ".mise*", "mise*.toml", "mise/config.toml", ".tool-versions"), _SHELL_IN_FOLDER),
    GuardedPlace((".config/mise.toml", ".autoenv*", ".devbox"), _SHELL_IN_FOLDER),
    GuardedPlace(
        (
            *("AGENTS*.md", "CLAUDE*.md", "GEMINI.md", "opencode.json*", ".*rules", ".agents", ".cline*", ".claude*"),
            *(".codex*", ".gemini*", ".cursor*", ".windsurf*", ".roo*", ".opencode*", ".mcp*", ".continue*", ".kilo*"),
            *(".augment*", ".junie", ".trae", ".qwen", ".amazonq", ".goose*", ".crush*", ".factory", ".openhands*"),
        ),
        _AGENT,
    ),
    GuardedPlace((".htaccess", ".arcconfig", ".sl"), "a server or tool of yours, when it is used there,"),
    GuardedPlace((".Renviron", ".radian_profile", ".iex.exs", ".ghci", ".ocamlinit", ".rspec"), _INTERPRETER),
    GuardedPlace(
        (
            *(".mvn", ".cargo", ".gradle/init.d", ".gradle/init.gradle", ".gradle/init.gradle.kts", ".jvmopts"),
            *(".gradle/gradle.properties", ".yarn/releases", ".yarn/plugins", ".bundle", ".storybook", ".sbtopts"),
            *(".config/dotnet-tools.json", ".buckconfig", ".changeset", ".simplecov", ".busted", ".gclient", ".repo"),
        ),
        "your next build",
    ),
)
"""At the top of each granted folder, of each repository in it, and of the user's home."""

SETTINGS: Final = GuardedPlace(
    (
        *(".*.json", ".*.jsonc", ".*.json5", ".*.y*ml", ".*.toml", ".*rc", ".*.el", ".*.lua", ".*.js", ".*.cjs"),
        *(".*.mjs", ".*.ts", ".*.py", ".*.rb", ".*.sh", ".*.ini", ".*.exs", ".*.php", ".*.ps1", ".flake8"),
    ),
    A_READER,
)
"""There too: the forms of the names that programs give to their settings, since no list of these names is complete."""

IN_ANY_FOLDER: Final = (
    GuardedPlace((".hg", ".jj"), _HG_OR_JJ),
    GuardedPlace((".vscode", ".idea", ".fleet", ".zed", ".helix"), _EDITOR),  # tasks, and the interpreter of each
    GuardedPlace((".devcontainer",), _EDITOR),  # commands on the machine itself, and the mounts of a container
    GuardedPlace((".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el"), _EDITOR),
    GuardedPlace((".envrc", ".direnv", "mise.toml", ".mise.toml", ".autoenv.zsh"), _SHELL_IN_FOLDER),
    GuardedPlace((".gdbinit", ".lldbinit", ".pdbrc"), _DEBUGGER),
    GuardedPlace((".Rprofile", ".irbrc", ".pryrc"), _INTERPRETER),
    GuardedPlace((".npmrc", ".yarnrc", ".yarnrc.yml"), "your next npm or yarn command"),  # the shell of scripts, a file
    # Hooks and servers of tools, which are commands; and where modules come from.
    GuardedPlace(
        (
            *(".claude", ".cursor", ".codex", ".gemini", ".mcp.json", ".windsurf", ".roo", ".kiro", ".continue"),
            *(".opencode", "opencode.json", ".aider.conf.yml", "AGENTS.md", "CLAUDE.md", "GEMINI.md"),
        ),
        _AGENT,
    ),
    GuardedPlace(
        (
            *(".amplifier/settings.yaml", ".amplifier/settings.local.yaml", ".amplifier/hooks", ".amplifier/modules"),
            *(".amplifier/agents", ".amplifier/bundles", ".amplifier/bundle.md", ".amplifier/skills"),
            *(".amplifier/cache", ".amplifier/keys.env", ".amplifier/registry.json"),
        ),
        "Amplifier",
    ),
)
"""There too, and in each folder that the search comes to: a program runs them wherever it is started or opened."""


OPEN: Final = (
    OpenPlace((".*ignore", ".gitattributes", ".gitkeep", ".keep", ".mailmap", ".editorconfig", ".nvmrc"), "plain data"),
    OpenPlace((".env.example", ".env.sample", ".env.template", ".env.dist"), "examples, which nothing reads"),
    OpenPlace((".venv", ".eggs"), "venv, setuptools: packages that a person starts by name"),
    OpenPlace((".*cache",), "pip, ruff, mypy, pytest, eslint, parcel, sass, zig and more: caches"),
    OpenPlace((".tox", ".nox", ".hypothesis", ".benchmarks"), "tox, nox, pytest"),
    OpenPlace((".coverage", ".coverage.*", ".nyc_output", ".c8"), "coverage, nyc, c8"),
    OpenPlace((".next", ".nuxt", ".turbo"), "next, nuxt, turbo"),
    OpenPlace((".npm", ".pnpm-store", ".yarn", ".pnp.*"), "npm, pnpm, yarn"),
    OpenPlace((".terraform", ".terraform.lock.hcl"), "terraform"),
    OpenPlace((".gradle", ".m2/repository"), "gradle, maven"),
    OpenPlace((".cargo/registry", ".cargo/git"), "cargo"),
    OpenPlace((".amplifier",), "Amplifier: conversations and notes"),
    OpenPlace((".local/share", ".local/state"), "many programs: their data"),
)
"""What stays open: hidden names of the home, parts of guarded folders, and names that only look like settings.

What the tables above name in them is guarded.
"""

_BELOW_ANYTHING: Final = "(?:.*/)?"


def _pattern(names: Iterable[str], before: str = "") -> re.Pattern[str]:
    texts = (re.escape(name).replace(r"\*", "[^/]*") for name in names)
    return re.compile(f"{before}(?:{'|'.join(texts)})", re.DOTALL)


_TABLES: Final = (*AT_PROJECT, *IN_ANY_FOLDER, *AT_HOME, SETTINGS)
_RUNNERS: Final = tuple((_pattern(place.names, _BELOW_ANYTHING), place.runner) for place in _TABLES)
_APART: Final = _pattern(
    (name for place in (*IN_ANY_FOLDER, *AT_HOME) for name in place.names if "/" in name), _BELOW_ANYTHING
)
_GUARDED: Final = _pattern(name for place in _TABLES for name in place.names)
_OPEN: Final = _pattern(name for place in OPEN for name in place.names)
OPEN_INSIDE: Final = tuple(name for place in OPEN for name in place.names if "/" in name)
AT_TOP: Final = tuple(name for place in _TABLES for name in place.names if "*" not in name)
"""The names of the tables that are looked for one by one, at the top of a project or home."""


def is_guarded(place: PurePath, *, at_home: bool = False) -> bool:
    """Whether a place, relative to the top of a project or home, is guarded, by its own name or one that it is in."""
    for part in map(str, (place, *place.parents[:-1])):
        if _GUARDED.fullmatch(part) or _OPEN.fullmatch(part):
            return not _OPEN.fullmatch(part)
    return at_home and str(place).startswith(".")


def is_apart(path: Path) -> bool:
    """Whether a path has a name of the tables that a grant of a guarded folder around it does not open."""
    return _APART.fullmatch(str(path)) is not None


def runner_by_name(path: Path) -> str:
    """Return what runs the contents of a path with a name of the tables; empty for any other."""
    return next((runner for pattern, runner in _RUNNERS if pattern.fullmatch(str(path))), "")
