"""Turn a failure of a command into an exit code, an object for scripts, and text for people or for a report.

Errors of Paddock's own tree state these themselves. Other exceptions come from a module's code, recognisable by their
traceback, or are internal errors. Only `show_usage` and `report_unforeseen` write, for failures outside of commands.
"""

from __future__ import annotations

import errno
import itertools
import platform
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

import paddock
from paddock.cli.system_faults import of_system
from paddock.errors import (
    CallRefusedError,
    IsolationUnavailableError,
    LevelFailure,
    ModuleDiedError,
    PaddockError,
    PlanError,
    TurnError,
    code_of,
    render,
)
from paddock.text import escape
from paddock_sdk.contract.boundary_errors import RefusedError
from paddock_sources.errors import SourceError, without_credentials

if TYPE_CHECKING:  # most commands start no session, and need not load its code
    from paddock.session.session import ModuleStatus
    from paddock.workers.exit_report import ExitReport

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
    "NotFoundError": "name a model that the server has, in `config` of the provider's entry",
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
    turn = TurnError(orchestrator, str(kind), str(error), traceback=trace, report=_death(modules), exit_code=refused)
    return turn if advice is None else turn.with_hint(advice)


def exit_code(error: BaseException) -> int:
    """Return the exit code for a command that failed with `error`."""
    error = of_system(error)
    return error.exit_code if isinstance(error, PaddockError) else _DEFECT


def as_dict(error: BaseException) -> dict[str, object]:
    """Return `error` for scripts; `message` is escaped text, as it would be shown to a person."""
    error = of_system(error)
    facts: dict[str, object] = {"type": code_of(error), "message": escape(str(error), multiline=True)}
    if isinstance(error, PaddockError):
        facts["hints"] = [escape(hint) for hint in error.hints]
    if isinstance(error, PlanError):
        facts["problems"] = [{**problem.as_dict(), "file": error.origin} for problem in error.problems]
    if isinstance(error, CallRefusedError):
        facts["denial"] = error.denial.as_dict()
    if isinstance(error, IsolationUnavailableError):
        facts["failures"] = {level: _failure_as_dict(one) for level, one in error.failures.items()}
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
    return render(error) if isinstance(error, PaddockError) else defect_report(error)


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
    """Write a usage error to stderr and, where `args` ask for JSON, as the command's object to stdout."""
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


def _failure_as_dict(one: LevelFailure) -> dict[str, object]:
    return {"step": one.step, "errno": errno.errorcode.get(one.errno), "reason": one.reason, "fix": one.fix or None}


def _death(modules: Sequence[ModuleStatus]) -> ExitReport | None:
    ends = [report for module in modules if module.kind in _NEEDED for report in module.exit_reports]
    return ends[-1] if ends else None
