"""What the sandboxes of one host are made with: what workers see of the runtime, and the levels that can be had.

For modules and for commands alike. Each level is tried once, by launching a worker at it that is granted nothing.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from paddock.errors import LevelFailure
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.machine import Machine
from paddock.isolation.mount_table import MountTable
from paddock.isolation.remedies import remedy
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.workers.launcher import LaunchSpec
from paddock.workers.probe import SandboxSupport, Unavailable, probe_sandbox_support
from paddock.workers.runtime import WorkerRuntime
from paddock.workers.worker_host import WorkerHost
from paddock_sandbox.profile import IsolationLevel, SandboxProfile

_SCRATCH: Final[Mapping[IsolationLevel, str]] = {"ns": "/scratch", "bwrap": "/tmp"}  # noqa: S108 - of its own root
_AS_PYTHON_SAYS: Final = re.compile(r"^\w+Error: (?:\[Errno \d+\] )?")


class SandboxHost:
    """Knows the runtime that `workers` are started with, and what this machine can do.

    `sandbox_support` is what was found out so far.
    """

    def __init__(self, workers: WorkerHost, *, for_commands: bool = False) -> None:
        """`for_commands`, nothing is imported ahead that only modules need; a module would start slowly."""
        covers = workers.folder / "empty"
        covers.mkdir()
        located = WorkerRuntime.locate(for_commands=for_commands)
        self.workers = workers
        self.paths = RuntimePaths.locate(located.interpreter, located.packages, covers)
        table = MountTable()
        self.paths.show(table, by_mounts=True)
        self.runtime = replace(located, mounts=table.mounts())
        self.sandbox_support = SandboxSupport()

    @classmethod
    @asynccontextmanager
    async def started(cls, *, for_commands: bool = False) -> AsyncIterator[Self]:
        """Have it made with workers of its own, which are given up at the end."""
        async with WorkerHost.started() as workers:
            yield cls(workers, for_commands=for_commands)

    async def try_levels(self, levels: Iterable[IsolationLevel]) -> SandboxSupport:
        """Find out which of these levels can be had, one after the other, as far as that is not known."""
        for level in levels:
            if level not in self.sandbox_support.findings:
                found = await probe_sandbox_support([level], self.workers.launcher_at, self._trial)
                self.sandbox_support = SandboxSupport({**self.sandbox_support.findings, **found.findings})
        return self.sandbox_support

    def scratch(self, level: IsolationLevel, folder: Path) -> Path:
        """Return a worker's private folder as it knows it: in a root of its own, or else made in `folder`."""
        inside = _SCRATCH.get(level)
        return Path(inside) if inside else Path(tempfile.mkdtemp(prefix="home-", dir=folder))

    def _trial(self, level: IsolationLevel) -> LaunchSpec:
        mounts = self.runtime.mounts
        if level not in LEVELS_WITH_NAMESPACES:
            table = MountTable()
            self.paths.show(table, by_mounts=False)
            mounts = table.mounts()
        scratch = self.scratch(level, self.workers.folder)
        profile = SandboxProfile(level, mounts, scratch=str(scratch))
        return LaunchSpec("trial", scratch, {"HOME": os.fspath(scratch)}, self.runtime, profile=profile)


def failure_of(found: Unavailable, machine: Machine) -> LevelFailure:
    """Return why a level cannot be had, with what would help."""
    # Told by the worker as Python shows an error; its class and number say nothing more to a person.
    failure = LevelFailure(found.step, found.errno, _AS_PYTHON_SAYS.sub("", found.reason))
    return replace(failure, fix=remedy(found.level, failure, machine))
