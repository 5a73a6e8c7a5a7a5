"""How a module process ended, as its init saw it: plain facts, before anybody asks for the reason."""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass

from paddock_sandbox.cgroup import CgroupReadings


@dataclass(frozen=True, slots=True)
class FailedStep:
    """A step between the fork and the module's first code that did not succeed."""

    step: str
    errno: int
    detail: str

    @property
    def reason(self) -> str:
        """What stood in its way, with the error's name where there is one."""
        name = errno.errorcode.get(self.errno)
        return f"{self.detail} ({name})" if name else self.detail


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """The end of one process tree: an exit code, a signal, or neither when its init vanished without a word.

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
