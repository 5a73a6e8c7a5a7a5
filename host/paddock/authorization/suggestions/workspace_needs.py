"""What tools and hooks need of the working directory and of programs, by the words of their ids.

Only usual needs are known. For any other module nothing is guessed: the lines say what it goes without, and what to
write to change that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from paddock.authorization.suggestions.needs import Needs, ProposalContext
from paddock.authorization.suggestions.vendors import words_of
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import Preset
from paddock.plan.problems import NotAcceptedError
from paddock.policy.programs import Program

_NET: Final = frozenset({"web", "http", "fetch", "browser", "url", "crawl", "scrape", "internet", "research", "mcp"})
_SHELLS: Final = frozenset({"bash", "shell", "sh", "zsh", "pwsh", "powershell", "terminal", "console", "exec"})
_GIT: Final = frozenset({"git"})
_WRITERS: Final = frozenset({"filesystem", "file", "files", "fs", "edit", "editor", "write", "patch", "notebook"})
_READERS: Final = frozenset({"search", "grep", "glob", "find", "ls", "read", "reader", "tree", "skills", "mention"})
_DELEGATES: Final = frozenset({"task", "delegate", "subagent", "subagents"})
_LOGS: Final = frozenset({"log", "logs", "logging", "logger", "audit", "trace", "transcript", "recorder", "jsonl"})
_APPROVALS: Final = frozenset({"approval", "approvals"})
_STATUS: Final = frozenset({"status"})
_BOUNDARY: Final = frozenset({"boundary"})
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
_FOLDER_KEYS: Final = frozenset({"log_dir", "output_dir", "directory", "dir", "folder"})


def tool_needs(entry: ModuleEntry, known: ProposalContext) -> Needs:
    """Return what an entry's tool seems to need."""
    words = words_of(entry.module)
    for theirs, needs in _TOOLS:
        if words & theirs:
            return needs(entry, known)
    return Needs() if words & _CONTENT else _unknown(entry)


def hook_needs(entry: ModuleEntry, known: ProposalContext) -> Needs:
    """Return what an entry's hook seems to need."""
    words = words_of(entry.module)
    for theirs, needs in _HOOKS:
        if words & theirs:
            return needs(entry, known)
    return Needs() if words & _CONTENT else _unknown(entry)


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


def preset_needs(preset: Preset, known: ProposalContext) -> Needs:
    """Return the needs that a preset satisfies, in words."""
    match preset:
        case "workspace-read":
            return Needs.of_preset(preset, f"reads {folder_text(known)}", "files of yours to read")
        case "workspace":
            return Needs.of_preset(preset, f"reads and writes {folder_text(known)}", "files of yours, to read or write")
        case "shell":
            return Needs.of_preset(
                preset,
                f"reads and writes {folder_text(known)}, and runs any program of the system and of that folder",
                "files of yours, and programs to run",
            )
    return Needs()


# -- one after the other -------------------------------------------------------------------


def _writer(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return preset_needs("workspace", known)


def _reader(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return preset_needs("workspace-read", known)


def _shell(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return preset_needs("shell", known)


def _git(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return _writer(entry, known) + _program("git")


def _status(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return _reader(entry, known) + _program("git")


def _program(name: str) -> Needs:
    try:
        Program.find(name)
    except NotAcceptedError:
        return Needs()
    return Needs.of(f"runs {name}", f"programs to run, so no {name}", run=[name])


def _connected(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return Needs(lacks=('the network; each host takes a line in its entry, as in permissions: {net: ["example.org"]}',))


def _delegates(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return Needs(lacks=("sub-sessions, to which it hands work; to allow them, add permissions: {call: [spawn]}",))


def _unknown(entry: ModuleEntry) -> Needs:
    return Needs(
        lacks=("your files, programs and the network; to grant some, add a line such as permissions: workspace-read",)
    )


def _log(entry: ModuleEntry, known: ProposalContext) -> Needs:
    named = _log_folder(entry.config)
    if named is None:
        return _writer(entry, known) + Needs(lacks=(f"a place for a log below its home: {HOME_IS_LOST}",))
    if str(named).startswith("~"):
        return Needs.of_home(f"its log is in `{named}`")
    folder = Path(os.path.normpath(known.working_dir / named))
    if not Path(os.path.realpath(folder)).is_relative_to(known.working_dir):  # also where only a link leads out
        return Needs(lacks=(f"a place for its log: `{folder}` is outside the working directory, and takes `write`",))
    if folder == known.working_dir or not folder.is_dir():
        return _writer(entry, known)
    written = f"./{folder.relative_to(known.working_dir)}"
    return Needs.of(f"writes its log into {folder}", f"a place for its log, {folder}", write=[written])


def _approval(entry: ModuleEntry, known: ProposalContext) -> Needs:
    return Needs() if _log_folder(entry.config) is None else _log(entry, known)


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
_TOOLS: Final[tuple[tuple[frozenset[str], _Needs], ...]] = (
    (_NET, _connected),
    (_SHELLS, _shell),
    (_GIT, _git),
    (_WRITERS, _writer),
    (_READERS, _reader),
    (_DELEGATES, _delegates),
)
_HOOKS: Final[tuple[tuple[frozenset[str], _Needs], ...]] = (
    (_SHELLS, _shell),
    (_LOGS, _log),
    (_APPROVALS, _approval),
    (_STATUS | _GIT, _status),
    (_BOUNDARY, _reader),
)
