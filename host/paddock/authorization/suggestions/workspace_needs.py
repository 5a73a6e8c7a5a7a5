"""What tools and hooks need of the working directory and of programs, by the words of their ids.

Only usual needs are known. For any other module nothing is guessed: the lines say what it goes without, and what to
write to change that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from paddock.authorization.grant_lines import NO_SECRETS_READ
from paddock.authorization.suggestions.needs import Needs, ProposalContext
from paddock.authorization.suggestions.vendors import words_of
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Permissions, Preset

_SHELLS: Final = frozenset({"bash", "shell", "sh", "zsh", "pwsh", "powershell", "terminal", "console", "exec"})
_LOGS: Final = frozenset({"log", "logs", "logging", "logger", "audit", "trace", "transcript", "recorder", "jsonl"})
_APPROVALS: Final = frozenset({"approval", "approvals"})
_CONTENT: Final = frozenset(
    {"todo", "think", "thinking", "calculator", "clock", "time", "approval", "redaction", "ui"}
    | {"display", "reminder", "progress", "naming", "explanatory", "deprecation", "mock"}
)
"""Words of modules that do all their work through the session."""

HOME_IS_LOST: Final = "what it writes there (`~/…`) is gone at the end, unless its entry says `state: keep`"
_LOG_KEYS: Final = (
    *("path", "file", "log_file", "log_path", "output_path", "file_path", "filename", "session_log_template"),
    *("audit_path", "log_dir", "output_dir", "directory", "dir", "folder"),
)
_PROGRAM_KEYS: Final = frozenset({"command", "program", "executable", "binary"})
_MAX_PROGRAMS: Final = 8  # people read no more before they agree
_FOLDER_KEYS: Final = frozenset({"log_dir", "output_dir", "directory", "dir", "folder"})


def usual_needs(entry: ModuleEntry, known: ProposalContext) -> Needs:
    """Return what an entry's tool or hook seems to need."""
    words = words_of(entry.module)
    for theirs, needs in _USUAL[entry.kind]:
        if words & theirs:
            return needs(entry, known)
    return Needs() if words & _CONTENT else Needs(lacks=(_ANYTHING,))


def folder_text(known: ProposalContext) -> str:
    """Describe the working directory for people, who may not know which one is meant."""
    text = f"the working directory, {known.working_dir}"
    return f"{text}, which is all of your home folder" if known.working_dir == known.owner.home.resolve() else text


def names_log(entry: ModuleEntry) -> bool:
    """Whether an entry is a hook's that keeps a log, and its configuration says where."""
    return (
        entry.kind == "hook"
        and bool(words_of(entry.module) & (_LOGS | _APPROVALS))
        and _log_folder(entry.config) is not None
    )


def configured_programs(config: Mapping[str, Any], known: ProposalContext) -> Needs:
    """Return the need for the programs that a configuration names, in tables of servers and the like as well."""
    needs, waiting = Needs(), [config]
    while waiting and len(needs.lines) < _MAX_PROGRAMS:
        for key, value in waiting.pop(0).items():
            inner = value if isinstance(value, list | tuple) else (value,)
            waiting += [one for one in inner[:_MAX_PROGRAMS] if isinstance(one, Mapping)]
            program = inner[0] if inner and key in _PROGRAM_KEYS else None
            if isinstance(program, str) and known.has_program(program):
                line, lack = f"runs {program}, which `{key}` names", f"programs to run, so no {program}"
                needs += Needs.of(line, lack, run=[program])
    return needs


def preset_needs(preset: Preset, known: ProposalContext) -> Needs:
    """Return the needs that a preset satisfies, in words."""
    if preset not in _PRESETS:
        return Needs()
    line, lacks = _PRESETS[preset]
    return Needs(Permissions(preset=preset), (line.format(folder=folder_text(known)), NO_SECRETS_READ), (lacks,))


_PRESETS: Final[Mapping[Preset, tuple[str, str]]] = {
    "workspace-read": ("reads {folder}", "files of yours to read"),
    "workspace": ("reads and writes {folder}", "files of yours, to read or write"),
    "shell": (
        "reads and writes {folder}, and runs any program of the system and of that folder",
        "files of yours, and programs to run",
    ),
}
_ANYTHING: Final = "your files, programs and the network; to grant some, add a line such as permissions: workspace-read"
_NETWORK: Final = 'the network; each host takes a line in its entry, as in permissions: {net: ["example.org"]}'
_SUB_SESSIONS: Final = "sub-sessions, to which it hands work; to allow them, add permissions: {call: [spawn]}"
SAID_BY_CODE: Final = frozenset({_ANYTHING, _SUB_SESSIONS})
"""What a module goes without by its id alone; its code, if it could be read, says it better."""


def _with_git(preset: Preset, known: ProposalContext) -> Needs:
    needs = preset_needs(preset, known)
    if known.has_program("git"):
        needs += Needs.of("runs git", "programs to run, so no git", run=["git"])
    return needs


def _log(entry: ModuleEntry, known: ProposalContext) -> Needs:
    named = _log_folder(entry.config)
    if named is None:
        return preset_needs("workspace", known) + Needs(lacks=(f"a place for a log below its home: {HOME_IS_LOST}",))
    if str(named).startswith("~"):
        return Needs.of_home(f"its log is in `{named}`")
    folder = Path(os.path.normpath(known.working_dir / named))
    if not Path(os.path.realpath(folder)).is_relative_to(known.working_dir):  # also where only a link leads out
        return Needs(lacks=(f"a place for its log: `{folder}` is outside the working directory, and takes `write`",))
    if folder == known.working_dir or not folder.is_dir():
        return preset_needs("workspace", known)
    written = f"./{folder.relative_to(known.working_dir)}"
    return Needs.of(f"writes its log into {folder}", f"a place for its log, {folder}", write=[written])


def _log_folder(config: Mapping[str, Any]) -> Path | None:
    """Return the folder that a configuration puts a log into, as it is written."""
    for key in _LOG_KEYS:
        value = config.get(key)
        if isinstance(value, str) and value.strip() and value.isprintable():
            # Parts that are filled in later are unknown; everything before them is known.
            path = Path(value.split("{")[0] + "x" if "{" in value else value)
            return path if key in _FOLDER_KEYS and "{" not in value else path.parent
    return None


_Needs = Callable[[ModuleEntry, ProposalContext], Needs]

# In the order in which they are tried: `tool-web-search` searches elsewhere, `tool-shell-reader` does more than read.
_USUAL: Final[Mapping[str, tuple[tuple[frozenset[str], _Needs], ...]]] = {
    "tool": (
        (
            frozenset({"web", "http", "fetch", "browser", "url", "crawl", "scrape", "internet", "research", "mcp"}),
            lambda entry, known: Needs(lacks=(_NETWORK,)),
        ),
        (_SHELLS, lambda entry, known: preset_needs("shell", known)),
        (frozenset({"git"}), lambda entry, known: _with_git("workspace", known)),
        (
            frozenset({"filesystem", "file", "files", "fs", "edit", "editor", "write", "patch", "notebook"}),
            lambda entry, known: preset_needs("workspace", known),
        ),
        (
            frozenset({"search", "grep", "glob", "find", "ls", "read", "reader", "tree", "skills", "mention"}),
            lambda entry, known: preset_needs("workspace-read", known),
        ),
        (frozenset({"task", "delegate", "subagent", "subagents"}), lambda entry, known: Needs(lacks=(_SUB_SESSIONS,))),
    ),
    "hook": (
        (_SHELLS, lambda entry, known: preset_needs("shell", known)),
        (_LOGS, _log),
        (_APPROVALS, lambda entry, known: _log(entry, known) if names_log(entry) else Needs()),
        (frozenset({"status", "git"}), lambda entry, known: _with_git("workspace-read", known)),
        (frozenset({"boundary"}), lambda entry, known: preset_needs("workspace-read", known)),
    ),
}
