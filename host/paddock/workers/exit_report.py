"""The exit report of one module process: why it ended, what was measured, and its last output.

The report is made once all evidence is there. Its reason is the one recorded before the host killed the process. Where
no reason was recorded, the report takes it from the exit status and guesses nothing further. Text in a report comes
from the module and is not escaped.
"""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from paddock.plan.limits import Limits, Mechanism, limit_option_in_line, limit_text, raised_limit_line
from paddock_sandbox.cgroup import CgroupReadings


@dataclass(frozen=True, slots=True)
class FailedStep:
    """A failed step between the fork and the module's first code."""

    step: str
    errno: int
    detail: str

    @property
    def reason(self) -> str:
        """Why the step failed, with the error's name where there is one."""
        name = errno.errorcode.get(self.errno)
        return f"{self.detail} ({name})" if name else self.detail


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """The end of one process tree: an exit code, a signal, or neither when its init vanished without a report.

    Times are seconds; memory and times cover the whole tree. `left_behind` counts descendants that even SIGKILL could
    not end in time; `used` is what the tree's control group counted, if it was in one.
    """

    code: int | None
    signal: int | None
    uptime: float
    peak_memory_bytes: int | None = None
    user_time: float | None = None
    system_time: float | None = None
    left_behind: int = 0
    failed_step: FailedStep | None = None
    used: CgroupReadings | None = None

    @property
    def signal_name(self) -> str | None:
        """The signal's name, such as `SIGSEGV`, or None when it was no signal."""
        return None if self.signal is None else signal_name(self.signal)


def signal_name(number: int) -> str:
    """Return the name of a signal; numbers without one are named by number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class ExitReason(StrEnum):
    """Why a module process ended."""

    START = "start"
    EXITED = "exited"
    SIGNALLED = "signalled"
    MEMORY = "memory"
    CPU = "cpu"
    TASKS = "tasks"
    DISK = "disk"
    TIMEOUT = "timeout"
    OUTPUT = "output"
    PROTOCOL = "protocol"
    DENIED = "denied"
    KILLED_BY_HOST = "killed_by_host"


# What the kernel means by these signals when no process sent them.
_REASON_OF_SIGNAL = {
    "SIGXCPU": ExitReason.CPU,
    "SIGXFSZ": ExitReason.DISK,
    "SIGSYS": ExitReason.DENIED,
}

_ENDED_FOR = {
    ExitReason.MEMORY: "was ended for using too much memory",
    ExitReason.CPU: "was ended for using too much processor time",
    ExitReason.TASKS: "was ended for starting too many tasks",
    ExitReason.DISK: "was ended for writing too much to disk",
    ExitReason.TIMEOUT: "was ended for not answering in time",
    ExitReason.OUTPUT: "was ended for printing too much",
    ExitReason.PROTOCOL: "was ended for breaking the protocol",
    ExitReason.DENIED: "was ended for an act it has no grant for",
    ExitReason.KILLED_BY_HOST: "was ended by the host",
}

_WITH_DETAIL = (ExitReason.PROTOCOL, ExitReason.SIGNALLED, ExitReason.KILLED_BY_HOST, ExitReason.TIMEOUT)

_OUT_OF_MEMORY = (
    "the kernel killed it for memory, and not at its own memory_max: the machine is out of memory, or the group that "
    "Paddock runs in (a service's MemoryMax, a container's limit)"
)


PROTOCOL: Final = "protocol"
"""The mechanism of a limit that a frame exceeded."""


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that was reached: its name and value, the observed value in words, and the mechanism that saw it.

    A size is in bytes, a duration in seconds. `ended` are the processes that were ended for it before, in words.
    `among` are those that a total is of, in words, and `raised` says how a person allows more of one.
    """

    name: str
    value: float
    observed: str
    mechanism: Mechanism
    ended: tuple[str, ...] = ()
    among: str = ""
    raised: str = ""

    @property
    def configured(self) -> str:
        """The value for people; one of the protocol as a plain number, as in the sentence beside it."""
        return f"{self.value}" if self.mechanism == PROTOCOL else limit_text(self.name, self.value)


@dataclass(frozen=True, slots=True)
class ExitReport:
    """How and why a module process ended; `uptime` is in seconds, `peak_memory_bytes` of its whole tree.

    A module's memory is one thing in limits and reports: `LimitedTree.peak` says which.
    """

    module: str
    reason: ExitReason
    uptime: float
    code: int | None = None
    signal: int | None = None
    limit: LimitHit | None = None
    peak_memory_bytes: int | None = None
    call_in_flight: str | None = None
    stderr_tail: tuple[str, ...] = ()
    detail: str = ""
    written: Limits | None = None  # those of its entry, which a line for that has to keep

    @classmethod
    def of(
        cls,
        module: str,
        status: ExitStatus,
        *,
        recorded: ExitReason | None = None,
        limit: LimitHit | None = None,
        call_in_flight: str | None = None,
        stderr_tail: tuple[str, ...] = (),
        detail: str = "",
        written: Limits | None = None,
    ) -> ExitReport:
        """Return the report on an end; its reason is the recorded one, or else follows from the status."""
        failed = status.failed_step
        reason = recorded or _reason_of(status)
        used = status.used
        if reason is ExitReason.SIGNALLED and status.signal == signal.SIGKILL and used and used.memory_kills_outside:
            detail = detail or _OUT_OF_MEMORY
        throttled = (used and used.cpu_throttled_seconds) or 0.0
        if reason is ExitReason.TIMEOUT and throttled > status.uptime / 2:
            detail = detail or f"it waited {_duration(throttled)} for its share of a processor, `cpu_quota`"
        return cls(
            module=module,
            reason=reason,
            uptime=status.uptime,
            code=status.code,
            # The signal with which the host ended a failed start is no fact about the module.
            signal=None if recorded is ExitReason.START else status.signal,
            limit=limit,
            peak_memory_bytes=status.peak_memory_bytes,
            call_in_flight=call_in_flight,
            stderr_tail=stderr_tail,
            detail=detail if failed is None else f"{failed.step}: {failed.reason}",
            written=written,
        )

    @property
    def signal_name(self) -> str | None:
        """The signal's name, such as `SIGSEGV`, or None when it was no signal."""
        return None if self.signal is None else signal_name(self.signal)

    @property
    def hints(self) -> tuple[str, ...]:
        """How a person can allow the module of a plan more of what it was ended for."""
        return self._remedies(of_call=False)

    @property
    def call_hints(self) -> tuple[str, ...]:
        """How a person can allow a call more of what its module was ended for."""
        return self._remedies(of_call=True)

    def _remedies(self, *, of_call: bool) -> tuple[str, ...]:
        limit = self.limit
        if limit is not None and limit.raised:
            return (limit.raised,)
        if limit is None or self.reason is ExitReason.PROTOCOL or limit.name not in Limits.model_fields:
            return ()  # the protocol's own limits break only for a worker that does not keep to it
        line = raised_limit_line(limit.name, limit.value, self.written)
        if not line:
            return (f"it had the most that a module may have of `{limit.name}`: {limit.configured}",)
        where = f"add {limit_option_in_line(line, limit.name)}" if of_call else f"write in its entry: {line}"
        return (f"to allow it more, {where}",)

    def describe(self) -> str:
        """Return the end as one sentence for a person."""
        sentence = f"{self.module} {self._what()}"
        if self.detail and self.reason in _WITH_DETAIL:
            sentence += f": {self.detail}"
        if self.limit is not None:
            observed = f", {self.limit.observed} seen" if self.limit.observed else ""
            observed += f" in {self.limit.among}" if self.limit.among else ""
            ended = f", after the end of {', '.join(self.limit.ended)}" if self.limit.ended else ""
            sentence += f" ({self.limit.name} {self.limit.configured}{observed}{ended})"
        if self.reason is not ExitReason.START:
            sentence += f" after {_duration(self.uptime)}"
        if self.call_in_flight is not None:
            sentence += f" while running {self.call_in_flight}"
        return sentence

    def as_dict(self) -> dict[str, object]:
        """Return the report as data for JSON."""
        limit = self.limit
        return {
            "module": self.module,
            "reason": self.reason.value,
            "code": self.code,
            "signal": self.signal_name,
            "limit": None
            if limit is None
            else {
                "name": limit.name,
                "configured": limit.configured,
                "observed": limit.observed,
                "mechanism": limit.mechanism,
                **({"ended": list(limit.ended)} if limit.ended else {}),
                **({"among": limit.among} if limit.among else {}),
            },
            "peak_memory_bytes": self.peak_memory_bytes,
            "uptime": self.uptime,
            "call_in_flight": self.call_in_flight,
            "stderr_tail": list(self.stderr_tail),
            "detail": self.detail,
            "message": self.describe(),
        }

    def _what(self) -> str:
        if self.reason is ExitReason.START:
            return f"did not start: {self.detail}" if self.detail else "did not start"
        if (ended_for := _ENDED_FOR.get(self.reason)) is not None:
            return ended_for
        if self.signal is not None:
            return f"was killed by {self.signal_name}"
        if self.code is not None:
            return f"exited with code {self.code}"
        return "vanished without a report"


def _reason_of(status: ExitStatus) -> ExitReason:
    if status.failed_step is not None:
        return ExitReason.START
    if status.signal_name is not None:
        return _REASON_OF_SIGNAL.get(status.signal_name, ExitReason.SIGNALLED)
    return ExitReason.EXITED if status.code is not None else ExitReason.SIGNALLED


def _duration(seconds: float) -> str:
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
