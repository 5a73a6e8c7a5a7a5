"""Turn a failure of a command into an exit code, an object for scripts, and text for people or for a report.

Errors of Paddock's own tree state these themselves. Other exceptions come from a module's code, recognisable by their
traceback, or are internal errors. Only `show_usage` and `report_unforeseen` write, for failures outside of commands.
"""

from __future__ import annotations

import errno
import itertools
import os
import platform
import re
import resource
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import click

import paddock
from paddock.cli.bundle_plan import as_named
from paddock.errors import (
    CallRefusedError,
    IsolationUnavailableError,
    KindError,
    ModuleDiedError,
    PaddockError,
    PlanError,
    TurnError,
    code_of,
    render,
    statement_of,
)
from paddock.text import escape
from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sources.errors import SourceError, without_credentials

if TYPE_CHECKING:  # most commands start no session, and need not load its code
    from paddock.session.session import ModuleStatus

_NEEDED = ("orchestrator", "context", "provider")  # kinds whose end can make a turn fail
_DEFECT = 3
_MAX_BRIEF = 600  # characters of an exception from a module

# A person's fix for an error of the contract that a provider raised, by the name of its class.
_ADVICE: Mapping[str, str] = {
    "AuthenticationError": "the key is missing or wrong: see `secrets` in the provider's entry of the plan, and the "
    "variable that it names",
    "AccessDeniedError": "this key may not do that: see what it is allowed at the provider's, or name another model",
    "QuotaExceededError": "the account has nothing left to spend: see the provider's page about it",
    "RateLimitError": "wait a moment, then ask again",
    "ContextLengthError": "the conversation is longer than the model takes: ask for less, or begin anew (`/clear` in "
    "a chat)",
    "NotFoundError": "name a model that the server has, or its right `base_url`, in `config` of the provider's entry",
    "NetworkError": "see whether the server is there, and `paddock why PROVIDER net HOST:PORT` whether the module may "
    "connect to it",
    "ProviderUnavailableError": "the provider is unavailable now: ask again, or name another one in the plan",
    "LLMTimeoutError": "the provider took too long: ask again",
    "StreamError": "the answer broke off: ask again",
    "ContentFilterError": "the provider refuses to answer this: ask in another way",
    "InvalidToolCallError": "the model called a tool in a way that cannot be read: ask again",
    "ConfigurationError": "see `config` in the provider's entry of the plan",
}

_SSH_USER = re.compile(r"(\bssh://[\w.-]+@)(?![^/\s`]*@)")
_ANY_PLAN = re.compile(r"(`paddock \w+ )PLAN\b")  # as in hints of the sources, which know no plan
_SEE_TRACEBACK = "`-v` shows where in the module's code it was raised, `--json` too"
_HINTS: Final[Mapping[int, str]] = {
    errno.EACCES: "see who may use it and the folders around it: `namei -l PATH`",
    errno.EPERM: "see who may use it and the folders around it: `namei -l PATH`",
    errno.ENOENT: "see whether it was moved, or removed meanwhile",
    errno.ENOTDIR: "a file is where a folder is needed: move it away",
    errno.EISDIR: "a folder is where a file is needed: move it away",
    errno.EEXIST: "something is where a new one is needed: move it away",
    errno.EROFS: "it is in a file system that is mounted read-only",
    errno.ENOSPC: "make room there (`df -h`, `df -i`), or set TMPDIR or PADDOCK_CACHE_DIR to another place",
    errno.EDQUOT: "your share of that file system is used up (`quota`)",
    errno.EFBIG: "allow larger files: `ulimit -f`, or `LimitFSIZE=` in a unit",
    errno.EMFILE: "allow more open files: `ulimit -n`, or `LimitNOFILE=` in a unit",
    errno.ENFILE: "the machine has as many open files as it allows: `sysctl fs.file-max`",
    errno.EAGAIN: "raise the limit of processes: `ulimit -u`, `LimitNPROC=` or `TasksMax=` in a unit",
    errno.ENOMEM: "free some memory, or allow more: `ulimit -v`, or `MemoryMax=` in a unit",
    errno.ELOOP: "its symbolic links lead in a circle: mend them",
    errno.ENAMETOOLONG: "use a shorter path",
    errno.EIO: "the device or network file system fails: see the kernel's messages (`dmesg`)",
    errno.ESTALE: "the network file system has lost it: mount it again",
    errno.ETXTBSY: "a program that runs is being replaced: try again",
    errno.EBUSY: "something else uses it: try again",
}
_LINK_LOOP: Final = "Symlink loop from"  # pathlib's, which is no OSError
_NO_HOME = ("could not determine the home directory", "Could not determine home directory")
_MEMORY = "or that of memory, which threads take too: `ulimit -v`, `LimitAS=` in a unit"


class SourceFailedError(PaddockError):
    """Raised for a command about a source, or the cache, that failed; `cause` is the code of its failure."""

    exit_code = 1

    def __init__(
        self, cause: str, summary: str, *, code: str = "", detail: Iterable[str] = (), hints: Iterable[str] = ()
    ) -> None:
        self.cause = cause
        super().__init__(summary, detail=detail, hints=hints)
        self.code = code or self.code

    @classmethod
    def of(cls, error: SourceError, *, code: str = "") -> Self:
        """Return the error that reports `error` to people."""
        return cls(error.code, error.summary, code=code, detail=error.detail, hints=error.hints)

    def facts(self) -> dict[str, object]:
        """Return the failure's kind for scripts."""
        return {"cause": self.cause}


def masked(text: str) -> str:
    """Return a text without the credentials of any address in it; a user of ssh is part of the address."""
    parts = _SSH_USER.split(text)
    return "".join(part if index % 2 else without_credentials(part) for index, part in enumerate(parts))


def as_exception(error: BaseException) -> Exception:
    """Return an exception for `error`: `error` itself, if it is one."""
    if isinstance(error, Exception):
        return error
    exception = RuntimeError(f"{type(error).__name__}: {error}")
    exception.__cause__ = error
    return exception


def of_turn(error: Exception, orchestrator: str, modules: Sequence[ModuleStatus]) -> Exception:
    """Return the error to report for a turn that ended with `error`: a module's exception as a `TurnError`."""
    kind = getattr(error, "remote_type", None)
    if isinstance(error, PaddockError) or kind is None:
        return error
    advice = _ADVICE.get(str(kind).rpartition(".")[2])
    # A user error is no error of a module, so the module's code is no part of the answer.
    trace = str(getattr(error, "remote_traceback", "")) if advice is None else ""
    refused = CallRefusedError.exit_code if isinstance(error, RefusedError) else None
    ends = [report for module in modules if module.kind in _NEEDED for report in module.exit_reports]
    death = ends[-1] if ends else None
    turn = TurnError(orchestrator, str(kind), str(error), traceback=trace, report=death, exit_code=refused)
    return turn if advice is None else turn.with_hint(advice)


def exit_code(error: BaseException) -> int:
    """Return the exit code for a command that failed with `error`."""
    error = of_system(error)
    return error.exit_code if isinstance(error, PaddockError) else _DEFECT


def as_dict(error: BaseException) -> dict[str, object]:
    """Return `error` for scripts; `message` is escaped text, as it would be shown to a person."""
    error = of_system(error)
    facts: dict[str, object] = {"type": code_of(error), "message": escape(statement_of(error), multiline=True)}
    if isinstance(error, PaddockError):
        facts["hints"] = [escape(hint) for hint in error.hints]
    if isinstance(error, PlanError):
        facts["problems"] = [{**problem.as_dict(), "file": error.origin} for problem in error.problems]
    if isinstance(error, CallRefusedError):
        facts["denial"] = error.denial.as_dict()
    if isinstance(error, IsolationUnavailableError):
        facts["failures"] = {level: one.as_dict() for level, one in error.failures.items()}
    more = getattr(error, "facts", None)
    if callable(more):
        facts = {**more(), **facts}
    report = getattr(error, "report", None)
    if isinstance(error, ModuleDiedError) or report is not None:
        from paddock.workers.exit_report import ExitReport

        facts["report"] = report.as_dict() if isinstance(report, ExitReport) else None
    return facts


def name_plan(error: PaddockError, plan: Path) -> None:
    """Put the plan into the hints of an error about it, where they have `PLAN` in a command."""
    error.hints = tuple(_ANY_PLAN.sub(lambda found: found[1] + shlex.quote(str(plan)), hint) for hint in error.hints)


def text(error: BaseException) -> str:
    """Return the text about `error` for a person; for an internal error, everything that a report needs."""
    error = of_system(error)
    return as_named(render(error)) if isinstance(error, PaddockError) else defect_report(error)


def text_of_turn(error: BaseException, mask: Callable[[str], str], *, verbose: bool) -> str:
    """Return the text about a failed turn for a person, with the traceback of a module only if `verbose`.

    `mask` hides secrets in it.
    """
    if verbose or not isinstance(error, TurnError):
        return text(error)
    shown = TurnError(error.module_id, error.kind, _on_one_line(error.message, mask), report=error.report)
    for hint in (*error.hints, *([_SEE_TRACEBACK] if error.traceback else [])):
        shown.with_hint(hint)
    return text(shown)


def brief(error: BaseException, mask: Callable[[str], str]) -> str:
    """Return the text about `error` in a conversation; for a module's exception, without the place in its code.

    `mask` also applies to the part that is cut.
    """
    if not isinstance(error, TurnError) or error.report is not None:
        return text(error)
    said = _on_one_line(error.message, mask)[:_MAX_BRIEF]
    kind = error.kind.rpartition(".")[2]
    return "\n".join([f"error: {escape(f'{kind}: {said}')}", *(f"hint: {escape(hint)}" for hint in error.hints)])


def _on_one_line(message: str, mask: Callable[[str], str]) -> str:
    """Return a client's message, which may have several lines, as one.

    It is masked first: a secret of several lines has another spelling once they are joined.
    """
    return " ".join(mask(message).split())


def show_usage(error: click.ClickException, args: Sequence[str]) -> None:
    """Write a usage error to stderr and, where `args` ask for JSON, as the command's object to stdout.

    An option that was typed in part is followed by all that begin so: click shows the few that are most alike.
    """
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        known = [name for one in error.ctx.command.params for name in one.opts]
        begun = sorted(name for name in known if name.startswith(error.option_name))
        if begun:
            which = ", ".join(map(repr, begun))
            error = click.UsageError(f"No such option '{error.option_name}'. Did you mean one of: {which}?", error.ctx)
    error.show()
    facts = {"type": "UsageError", "message": escape(error.format_message(), multiline=True), "hints": []}
    _print_for_scripts(facts, args)


def report_unforeseen(error: BaseException, args: Sequence[str]) -> int:
    """Write an error that no command reported, as `show_usage` does, and return the exit code."""
    click.echo(text(error), err=True)
    _print_for_scripts(as_dict(error), args)
    return exit_code(error)


def as_result(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the object of a call that came to no module, for a failure with these facts."""
    return {"success": False, "output": None, "error": facts, "resources": None}


def _print_for_scripts(facts: Mapping[str, object], args: Sequence[str]) -> None:
    if "--json" in itertools.takewhile(lambda argument: argument != "--", args):
        from paddock.cli.terminal.json_output import print_json

        # A call prints a tool's result, also of one that failed.
        print_json(as_result(facts) if args[:1] == ["call"] else {"error": facts})


def defect_report(error: BaseException) -> str:
    """Return the text about an unforeseen failure, ready to be pasted into a report."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    return "\n".join(
        [
            render(error),
            "",
            "--- what to paste into the report ---",
            f"paddock {paddock.__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: {escape(shlex.join(['paddock', *sys.argv[1:]]))}",
            *(f"  {escape(line)}" for line in trace.splitlines()),
            "-------------------------------------",
        ]
    )


def of_system(error: BaseException) -> BaseException:
    """Return an error that names the system's fault, if `error` is known to be one; else `error` itself.

    Code that foresees such a failure reports it itself, with more to say. This is for the rest: an error of the system
    that arrives at the top of a command is never called a defect.
    """
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_working_dir():
        return KindError(
            "NoWorkingDirError",
            "the working directory is gone",
            hints=["go to a folder that exists: `cd` to it, or `WorkingDirectory=` in a unit"],
        )
    if isinstance(error, RuntimeError) and str(error).startswith(_NO_HOME):
        return KindError(
            "NoHomeError",
            "no home folder is known: HOME is not set, and this user has none",
            hints=["set HOME to a folder of this user's, as with `Environment=HOME=/var/lib/NAME` in a unit"],
        )
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        is_unlimited = resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
        return KindError(
            "NoRoomError",
            "the system allows this user no more threads",
            hints=[
                "raise the limit of processes: `ulimit -u`, `LimitNPROC=` or `TasksMax=` in a unit",
                *([] if is_unlimited else [_MEMORY]),
            ],
        )
    if isinstance(error, BaseExceptionGroup):
        known = [of_system(one) for one in error.exceptions]
        return known[0] if all(isinstance(one, PaddockError) for one in known) else error
    number = None if hasattr(error, "remote_type") else _number_of(error)  # a module's own is no refusal of ours
    if number is None:
        return error
    path = getattr(error, "filename", None)
    where = f"`{os.fsdecode(path)}`: " if isinstance(path, (str, bytes)) else "the system refused: "
    return KindError("SystemRefusedError", f"{where}{os.strerror(number)}", hints=[_HINTS[number]])


def _number_of(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno if error.errno in _HINTS else None
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    return errno.ELOOP if isinstance(error, RuntimeError) and str(error).startswith(_LINK_LOOP) else None


def _has_working_dir() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True
