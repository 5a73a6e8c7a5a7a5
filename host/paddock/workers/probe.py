"""Find out which isolation levels work on this machine, by starting a worker at each.

A level works when a process took every step of it, and the process's own attempts to get out again were refused.
Results are not kept between hosts; one host probes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from paddock.errors import LaunchError
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock_sandbox.profile import IsolationLevel


@dataclass(frozen=True, slots=True)
class Available:
    """A level that works: the steps taken, what Landlock protects, and what the worker's file system lacks."""

    level: IsolationLevel
    steps: tuple[str, ...]
    protections: tuple[str, ...]
    missing: tuple[str, ...]

    @classmethod
    def of_process(cls, level: IsolationLevel, process: ModuleProcess) -> Available:
        """Return what a process launched at `level` with `tries_to_hold` reports."""
        lockdown = process.ready.lockdown
        return cls(level, lockdown.steps, lockdown.protections, process.ready.missing)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A level that does not work: the failed step, the kernel's error (0: it was not asked), and the step's message."""

    level: IsolationLevel
    step: str
    errno: int
    reason: str

    @classmethod
    def of_error(cls, level: IsolationLevel, error: LaunchError) -> Unavailable:
        """Return what a launch at `level` that failed says."""
        return cls(level, error.step, error.errno, error.message)


@dataclass(frozen=True, slots=True)
class SandboxSupport:
    """The result for each level that was tried."""

    findings: Mapping[IsolationLevel, Available | Unavailable] = field(default_factory=dict)

    @property
    def reachable(self) -> frozenset[IsolationLevel]:
        """The levels that work."""
        return frozenset(level for level, found in self.findings.items() if isinstance(found, Available))


async def try_level(level: IsolationLevel, launcher: Launcher, spec: LaunchSpec) -> Available | Unavailable:
    """Try a level by launching a worker at it, which is ended again at once."""
    try:
        process = await launcher.launch(replace(spec, tries_to_hold=True))
    except LaunchError as error:
        return Unavailable.of_error(level, error)
    try:
        await process.stop(0)
    finally:
        process.rpc.close()
    return Available.of_process(level, process)
