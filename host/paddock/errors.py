"""Every failure that Paddock reports on purpose.

An error carries its facts as fields. `summary` (one line), `detail` (lines under it) and `hints` (what to do) are built
from them, so a terminal, a log and an application show the same: `str()` has all three, as `render()`, and both escape
text that came from modules and plans. Where the module contracts have a class for the same failure, Paddock's class
derives from it, so code written for the contracts catches it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import groupby
from operator import itemgetter
from typing import Literal, Protocol, Self, TypeVar

from paddock.lookalikes import marked
from paddock.text import hinted, last_lines
from paddock_sdk.contract import boundary_errors, module_sources
from paddock_sources.environment.errors import ContractVersionError
from paddock_sources.errors import LayerAnswer, SourceError, SourceRefusedError, UnresolvedError, without_credentials
from paddock_sources.similar_names import near


class PaddockError(Exception):
    """Root of the tree. A command ends with `exit_code`: 3, an internal error, unless a subclass sets another.

    `code` names the kind of failure for scripts: the name of its class, or the code given to a `KindError`.
    """

    exit_code: int = 3

    def __init__(self, summary: str, *, detail: Iterable[str] = (), hints: Iterable[str] = ()) -> None:
        self.code = type(self).__name__
        self.summary = summary
        self.detail: tuple[str, ...] = tuple(detail)
        self.hints: tuple[str, ...] = tuple(hints)
        super().__init__(summary)

    def __str__(self) -> str:
        return hinted(self.summary, self.detail, self.hints)

    def paddock_statement(self) -> str:
        """Return the text without hints, which are for people: modules are told this, and scripts beside the hints."""
        return hinted(self.summary, self.detail, ())

    def with_hint(self, hint: str) -> Self:
        """Add a hint, and return the error."""
        self.hints = (*self.hints, hint)
        return self


class KindError(PaddockError):
    """Raised for a user error that callers distinguish only by its `code`."""

    def __init__(
        self, code: str, summary: str, *, exit_code: int = 1, detail: Iterable[str] = (), hints: Iterable[str] = ()
    ) -> None:
        super().__init__(summary, detail=detail, hints=hints)
        self.code = code
        self.exit_code = exit_code

    @classmethod
    def of_sources(cls, error: SourceError) -> Self:
        """Return the error for a source, a lock file or a cache that cannot be used for the reason in `error`."""
        return cls("SourcesError", error.summary, detail=error.detail, hints=error.hints)


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One problem of a plan, or of a similar file: where it is, what is wrong, and how to fix it.

    `path` is the place as the plan spells it (`tools[1].module`; empty: the whole document), `line` that of the file;
    `at` is the place of that line, if it is not `path`. `file` is another file than the plan's, as a bundle's.
    """

    path: str
    message: str
    hint: str = ""
    line: int | None = None
    at: str = ""
    file: str = ""

    def describe(self, file: str | None = None) -> str:
        """Return place and message as one line of text, with the line in `file` where it is known."""
        message = marked(self.message)
        text = f"{self.path}: {message}" if self.path else message
        file = self.file or file
        return f"{file}:{self.line}: {text}" if file and self.line is not None else text

    def as_dict(self) -> dict[str, object]:
        """Return the problem's facts for scripts; `file` only where it is another one than the plan's."""
        names = ("path", "line", "message", "hint", *(("file",) if self.file else ()))
        return {name: getattr(self, name) for name in names}


class PlanError(PaddockError):
    """Raised for a plan that cannot be used; `problems` holds everything wrong with it, in the plan's order.

    Its code is `GrantError` where only grants cannot be given as written, and `UnenforcedLimitError` for limits that
    nothing enforces at the level that the plan is started with.
    """

    exit_code = 1

    def __init__(self, problems: Iterable[PlanProblem], *, code: str = "PlanError", origin: str | None = None) -> None:
        self._code = code
        self.origin = origin
        self._tell(f"plan{f' `{origin}`' if origin else ''}", tuple(problems))

    def retell(self, subject: str, reworded: Callable[[PlanProblem], PlanProblem]) -> None:
        """Report the same problems for `subject`, which was not written as a plan, in its own words."""
        self._tell(subject, tuple(map(reworded, self.problems)))

    def locate(self, file: str, place_of: Callable[[str], tuple[str, int | None]]) -> None:
        """Add line numbers of the plan's file to the problems that have none yet."""
        self.origin = file
        self._tell(f"plan `{file}`", _located(self.problems, place_of))

    def _tell(self, subject: str, problems: tuple[PlanProblem, ...]) -> None:
        self.problems = problems = tuple(dict.fromkeys(problems))  # a preset may have the same one in two families
        count = len(problems)
        super().__init__(
            f"{subject} has {'a problem' if count == 1 else f'{count} problems'}",
            detail=[problem.describe(self.origin) for problem in problems],
            hints=_hints_of(problems),
        )
        self.code = self._code


class PolicyFileError(PaddockError):
    """Raised for a policy file, or another operator file, that exists and cannot be trusted or understood."""

    exit_code = 4

    def __init__(self, file: str, problems: Iterable[PlanProblem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__(
            f"`{file}` cannot be relied on, and nothing starts without it",
            detail=[problem.describe(file) for problem in self.problems],
            hints=_hints_of(self.problems),
        )

    def facts(self) -> dict[str, object]:
        """Return the problems for scripts."""
        return {"problems": [{**problem.as_dict(), "file": self.file} for problem in self.problems]}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that a policy refuses: the request (`path`, `line` in the plan), the rule, and the fix.

    The rule is `rule`, as written, on `rule_line` of `rule_file`; built-in rules have no line. `file` is a bundle's.
    """

    path: str
    message: str
    hint: str
    rule: str
    rule_file: str
    rule_line: int | None = None
    line: int | None = None
    file: str = ""

    def describe(self, file: str | None = None) -> tuple[str, str]:
        """Return the refusal as one line of text, and the rule as another."""
        asked = PlanProblem(self.path, self.message, line=self.line, file=self.file).describe(file)
        place = f"{self.rule_file}:{self.rule_line}" if self.rule_line is not None else self.rule_file
        return asked, f"  by {place}: {self.rule}"

    def as_dict(self) -> dict[str, object]:
        """Return the refusal's facts for scripts."""
        return {
            **PlanProblem(self.path, self.message, self.hint, self.line, file=self.file).as_dict(),
            "rule": {"text": self.rule, "file": self.rule_file, "line": self.rule_line},
        }


class PolicyRefusedError(PaddockError):
    """Raised when a policy refuses a start; `problems` are mistakes of the plan that were found along the way."""

    exit_code = 4

    def __init__(
        self, refusals: Iterable[Refusal], *, problems: Iterable[PlanProblem] = (), origin: str | None = None
    ) -> None:
        self.origin = origin
        self._tell(f"plan `{origin}`" if origin else "this", tuple(refusals), tuple(problems))

    def facts(self) -> dict[str, object]:
        """Return refusals and other problems for scripts; only refusals have a `rule`."""
        problems = [*(one.as_dict() for one in self.refusals), *(one.as_dict() for one in self.problems)]
        return {"problems": [{"file": self.origin, **one} for one in problems]}

    def retell(self, subject: str, place_of: Callable[[str], str]) -> None:
        """Report the same refusals for `subject`, which was not written as a plan, with its own names of places."""
        self._tell(
            subject,
            tuple(replace(refusal, path=place_of(refusal.path)) for refusal in self.refusals),
            tuple(replace(problem, path=place_of(problem.path)) for problem in self.problems),
        )

    def locate(self, file: str, place_of: Callable[[str], tuple[str, int | None]]) -> None:
        """Add line numbers of the plan's file where there are none yet."""
        self.origin = file
        self._tell(f"plan `{file}`", _located(self.refusals, place_of), _located(self.problems, place_of))

    def _tell(self, subject: str, refusals: tuple[Refusal, ...], problems: tuple[PlanProblem, ...]) -> None:
        self.refusals = refusals
        self.problems = problems
        super().__init__(
            f"policy refuses what {subject} asks for",
            detail=[*_described(refusals, self.origin), *(problem.describe(self.origin) for problem in problems)],
            hints=_hints_of((*refusals, *problems)),
        )


class ConsentRefusedError(PaddockError):
    """Raised when the answer to a question means that the plan `plan` is not started."""

    exit_code = 4

    def __init__(self, plan: str) -> None:
        self.plan = plan
        super().__init__(f"nothing of plan `{plan}` was started: it was not accepted")


class ModuleError(PaddockError):
    """Root of the failures of one module, `module_id`."""

    exit_code = 1

    def __init__(
        self,
        module_id: str,
        summary: str,
        *,
        code: str = "",
        exit_code: int | None = None,
        detail: Iterable[str] = (),
        hints: Iterable[str] = (),
    ) -> None:
        self.module_id = module_id
        super().__init__(summary, detail=detail, hints=hints)
        self.code = code or self.code
        self.exit_code = exit_code or self.exit_code

    @classmethod
    def tool_missing(cls, module_id: str, tool: str, *, mounted: Collection[str]) -> Self:
        """Return the error for a tool that the module did not mount; `mounted` are the names of those it did."""
        close = near(tool, mounted)
        return cls(
            module_id,
            f"module `{module_id}` has no tool `{tool}`",
            code="ToolMissingError",
            detail=[f"it mounted: {', '.join(mounted)}" if mounted else "it mounted no tool at all"],
            hints=[f"did you mean `{close[0]}`?"] if close else (),
        )


class ModuleMissingError(ModuleError, module_sources.ModuleNotFoundError):
    """Raised when no code is found for a module; `tried` holds each place asked and its answer."""

    def __init__(
        self,
        module_id: str,
        *,
        source: str | None = None,
        tried: Iterable[LayerAnswer] = (),
        hints: Iterable[str] = (),
        found: str = SourceError.outcome,
    ) -> None:
        self.source = source
        self.tried = tuple(tried)
        told = [one.describe() for one in self.tried if not one.is_silent]
        # A place with a wrong answer ended the search, so the reason is the whole message.
        wrong = next((attempt for attempt in self.tried if attempt.asked), None)
        said = f": {wrong.answer}" if wrong is not None else ""
        named = f" from source `{without_credentials(source)}`" if source else ""
        super().__init__(
            module_id,
            f"{found} module `{module_id}`{named}{said}",
            detail=told if wrong is None else [f"named by {wrong.layer}"],
            hints=hints,
        )

    @classmethod
    def of(cls, module_id: str, error: SourceError) -> ModuleMissingError:
        """Return the error that a caller of the host's API gets for `error`."""
        cause = error.__cause__ if isinstance(error, UnresolvedError) else error
        if isinstance(cause, ContractVersionError):
            return UnknownContractError(module_id, cause)
        if isinstance(error, UnresolvedError):
            found = cause.outcome if isinstance(cause, SourceError) else error.outcome
            missing = cls(module_id, source=error.source, tried=error.attempts, hints=error.hints, found=found)
            if isinstance(cause, SourceRefusedError):
                missing.exit_code = 4
            return missing
        answer = "; ".join([error.summary, *error.detail])
        return cls(module_id, tried=[LayerAnswer("source", "", answer)], hints=error.hints, found=error.outcome)


class UnknownContractError(ModuleMissingError, module_sources.ModuleLoadError):
    """Raised for a module that was found but requires a version of the module contracts that Paddock does not know."""

    def __init__(self, module_id: str, error: ContractVersionError) -> None:
        self.source, self.tried = None, ()
        self.requires = error.requires
        ModuleError.__init__(self, module_id, f"module `{module_id}`: {error.summary}", hints=error.hints)


LoadStage = Literal["import", "mount", "start", "handshake"]

_STAGE_TEXT: dict[LoadStage, str] = {
    "import": "cannot be imported",
    "mount": "failed while it mounted itself",
    "start": "did not start",
    "handshake": "did not answer the host's greeting",
}


class Report(Protocol):
    """The known facts about the end of a process."""

    def describe(self) -> str:
        """Return the report as text, the most important fact on the first line."""
        ...


class ModuleLoadError(ModuleError, module_sources.ModuleLoadError):
    """Raised when a module was found and cannot be used; `traceback` is the module's own text, untrusted.

    `report` is set when the process exited or exceeded its time without naming an error.
    """

    def __init__(
        self,
        module_id: str,
        stage: LoadStage,
        message: str,
        *,
        traceback: str = "",
        report: Report | None = None,
        hints: Iterable[str] = (),
    ) -> None:
        self.stage = stage
        self.message = message
        self.traceback = traceback
        self.report = report
        if report is not None:
            self.exit_code = 5
        super().__init__(
            module_id,
            f"module `{module_id}` {_STAGE_TEXT[stage]}: {message}",
            detail=last_lines(traceback),
            hints=[*hints, *getattr(report, "hints", ())],
        )


class TurnError(ModuleError):
    """Raised for a turn that its orchestrator, `module_id`, ended with an exception of class `kind`.

    `report` is set when the cause is the end of a module that the turn needed.
    """

    def __init__(
        self,
        module_id: str,
        kind: str,
        message: str,
        *,
        exit_code: int | None = None,
        traceback: str = "",
        report: Report | None = None,
    ) -> None:
        self.kind = kind
        self.message = message
        self.traceback = traceback
        self.report = report
        super().__init__(
            module_id,
            f"the turn failed: `{module_id}` raised {kind}: {message}",
            exit_code=exit_code if exit_code is not None or report is None else 5,
            detail=[*(report.describe().splitlines() if report is not None else ()), *last_lines(traceback)],
        )


class AnswerTypeError(ModuleError, TypeError):
    """Raised for a turn whose orchestrator returned something other than text."""

    def __init__(self, module_id: str, answered: str) -> None:
        self.answered = answered
        super().__init__(module_id, f"orchestrator `{module_id}` returned `{answered}`; execute must return text")


class LaunchError(ModuleError, module_sources.ModuleLoadError):
    """Raised when no process could be started for a module; `step` names the step that failed.

    `errno` is the kernel's answer, 0 where the failure was not in a system call.
    """

    def __init__(self, module_id: str, step: str, message: str, *, errno: int = 0, hints: Iterable[str] = ()) -> None:
        self.step = step
        self.message = message
        self.errno = errno
        super().__init__(
            module_id, f"no process could be started for module `{module_id}`: {step}: {message}", hints=hints
        )


class ModuleDiedError(ModuleError, boundary_errors.ModuleGoneError):
    """Raised for a call into a module whose process ended; `report` says how, `call` what was in flight."""

    exit_code = 5

    def __init__(self, module_id: str, report: Report, *, call: str = "", hints: Iterable[str] = ()) -> None:
        self.report = report
        self.call = call
        first, *rest = report.describe().splitlines() or [""]
        super().__init__(
            module_id,
            f"module `{module_id}` ended{f' during {call}' if call else ''}" + (f": {first}" if first else ""),
            detail=rest,
            hints=hints,
        )


class QuarantinedError(ModuleError, boundary_errors.ModuleGoneError):
    """Raised for a call into a module that is no longer restarted: how often it `ended`, and what lifts that."""

    exit_code = 5

    def __init__(self, module_id: str, *, ended: str, lifts: str, report: Report | None = None) -> None:
        self.report = report
        super().__init__(
            module_id,
            f"module `{module_id}` is quarantined: it ended {ended}",
            detail=["the last time:", *report.describe().splitlines()] if report is not None else (),
            hints=[f"a new session starts it again, and so does {lifts}"],
        )


class RevokedError(ModuleError, boundary_errors.ModuleGoneError):
    """Raised for a call into a module whose grants were taken back; it runs no more in this session."""

    exit_code = 4

    def __init__(self, module_id: str) -> None:
        super().__init__(
            module_id,
            f"module `{module_id}` runs no more: what it was granted was taken back",
            hints=["a new session grants what the plan says"],
        )


@dataclass(frozen=True, slots=True)
class LevelFailure:
    """Why an isolation level is unavailable: the failed step, the kernel's answer (0: not asked), and a `fix`."""

    step: str
    errno: int
    reason: str
    fix: str = ""

    def describe(self) -> str:
        """Return the failure as one line of text."""
        name = errno.errorcode.get(self.errno, "")
        return f"{self.step}: {self.reason}{f' ({name})' if name and name not in self.reason else ''}"

    def as_dict(self) -> dict[str, object]:
        """Return the failure's facts for scripts."""
        name = errno.errorcode.get(self.errno)
        return {"step": self.step, "errno": name, "reason": self.reason, "fix": self.fix or None}


class IsolationUnavailableError(PaddockError):
    """Raised when none of the isolation levels `wanted`, at `place` in the plan, is available; `failures` say why."""

    exit_code = 1

    def __init__(
        self, wanted: Iterable[str], *, place: str, failures: Mapping[str, LevelFailure], hints: Iterable[str] = ()
    ) -> None:
        self.wanted = tuple(wanted)
        self.place = place
        self.failures = dict(failures)
        names = " nor ".join(f"`{level}`" for level in self.wanted)
        either = "neither " if len(self.wanted) > 1 else ""
        super().__init__(
            (f"{place}: " if place else "")
            + f"{either}isolation level {names} is {'' if either else 'un'}available on this machine",
            detail=[f"{level}: {failure.describe()}" for level, failure in self.failures.items()],
            hints=dict.fromkeys([*(failure.fix for failure in self.failures.values() if failure.fix), *hints]),
        )


DenialLayer = Literal["router", "egress", "launcher", "files", "programs", "network", "policy", "destination"]
"""The layer that refused: router, the host's side of the network, process start, isolation, or a policy.

`destination` is none of Paddock's: what a module may connect to was not found, refused or not trusted.
"""


@dataclass(frozen=True, slots=True)
class Denial:
    """A refused act: `caller` wanted to do `operation` to `target`, and `layer` refused it, `times` over.

    `grant` is the line of a plan that allows it, if one can; `reason` adds detail. `seen_by` is `host` where the host
    itself refused the act, or `module` where the module's runtime reported it, and could have withheld it.
    """

    operation: str
    target: str
    caller: str
    layer: DenialLayer = "router"
    grant: str = ""
    reason: str = ""
    times: int = 1
    seen_by: Literal["host", "module"] = "host"

    @property
    def hint(self) -> str:
        """Return the fix as a line of text."""
        if self.layer == "destination":
            return "its grant covers it; Paddock refused nothing"
        if not self.grant:
            return "no grant allows this"
        return f"to allow it, write in the entry of `{self.caller}` in the plan: {self.grant}"

    def describe(self) -> str:
        """Return the refused act and the reason as a line of text."""
        could = "cannot" if self.layer == "destination" else "may not"
        what = f"module `{self.caller}` {could} {self.operation} `{self.target}`"
        return f"{what}: {self.reason}" if self.reason else what

    def as_dict(self) -> dict[str, object]:
        """Return the denial's facts for scripts, without `seen_by`, which is for the audit log."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "seen_by"}


class CallRefusedError(PaddockError, boundary_errors.RefusedError):
    """Raised for a call that a module has no grant for."""

    exit_code = 4

    def __init__(self, denial: Denial) -> None:
        self.denial = denial
        super().__init__(denial.describe(), hints=[denial.hint])


def code_of(error: BaseException) -> str:
    """Return the name by which scripts know a kind of failure."""
    return error.code if isinstance(error, (PaddockError, SourceError)) else type(error).__name__


def render(error: BaseException) -> str:
    """Return the text shown to a person for `error`, without a final newline."""
    if isinstance(error, (PaddockError, SourceError)):
        return f"error: {hinted(error.summary, error.detail, error.hints)}"
    hint = "this is a defect of Paddock, not of the plan or the module; please report it"
    return f"error: {hinted(f'unexpected {type(error).__name__}: {error}', (), [hint])}"


def statement_of(error: BaseException) -> str:
    """Return the text of an error without its hints."""
    return error.paddock_statement() if isinstance(error, PaddockError) else str(error)


_Found = TypeVar("_Found", PlanProblem, Refusal)


def placed(problem: _Found, file: str, line: int | None) -> _Found:
    """Return a problem or refusal with another line, and the file of that."""
    return replace(problem, file=file, line=line)


def _located(problems: Iterable[_Found], place_of: Callable[[str], tuple[str, int | None]]) -> tuple[_Found, ...]:
    """Return the problems, each with its line and its file, where it has none yet."""
    return tuple(
        one if one.line is not None else placed(one, *place_of(getattr(one, "at", "") or one.path)) for one in problems
    )


def _described(refusals: Iterable[Refusal], file: str | None) -> Iterator[str]:
    """Yield the lines about refusals; a rule is named once below those that follow each other and are by it."""
    for rule, same in groupby((refusal.describe(file) for refusal in refusals), itemgetter(1)):
        yield from (asked for asked, _ in same)
        yield rule


def _hints_of(problems: Iterable[PlanProblem | Refusal]) -> list[str]:
    """Return each hint once: with its place, unless it is the same at several."""
    places: dict[str, set[str]] = {}
    for problem in problems:
        if problem.hint:
            places.setdefault(problem.hint, set()).add(getattr(problem, "at", "") or problem.path)
    return [f"{path}: {hint}" if len(at) == 1 and (path := next(iter(at))) else hint for hint, at in places.items()]
