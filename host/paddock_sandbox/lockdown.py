"""Shut the calling process in: the one seam between a fresh worker and the first import of untrusted code.

`apply` runs in the worker itself, after the last fork and while it has one thread. It either takes every step the
profile asks for or raises naming the step that failed; a caller that sees the error must end the process without
running anything untrusted.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass

from paddock_sandbox import prctl
from paddock_sandbox.profile import SandboxProfile


class LockdownError(OSError):
    """Raised when the kernel refused a step; `step` names it and `errno` says why."""

    def __init__(self, step: str, number: int, reason: str) -> None:
        super().__init__(number, f"lockdown step `{step}` failed: {reason}")
        self.step = step


@dataclass(frozen=True, slots=True)
class LockdownReport:
    """What was really done: the level reached, in words, and the steps taken, in order."""

    level: str
    steps: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"level": self.level, "steps": list(self.steps)}


def apply(profile: SandboxProfile, *, parent: int) -> LockdownReport:
    """Apply the profile to the calling process, whose parent is to be `parent`.

    Raises:
        LockdownError: A step was refused; earlier steps stay in force.
    """
    # dumpable is left alone: without a user namespace, clearing it would hide the process's own memory counters from
    # its host. The death signal comes last: the kernel forgets it when credentials change.
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("no_new_privs", prctl.give_up_new_privileges),
        ("no core dumps", _forbid_core_dumps),
        ("die with the parent", lambda: _die_with(parent)),
    )
    for name, step in steps:
        try:
            step()
        except OSError as error:
            raise LockdownError(name, error.errno or 0, error.strerror or str(error)) from error
    return LockdownReport(level=f"{profile.level} only", steps=tuple(name for name, _ in steps))


def _forbid_core_dumps() -> None:
    # A core file would leave the module's memory, secrets included, outside every grant.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _die_with(parent: int) -> None:
    prctl.set_parent_death_signal(signal.SIGKILL)
    # The signal only fires for an end that is still to come.
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "the parent ended first")
