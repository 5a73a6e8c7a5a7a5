"""The means of making sandboxes on one host: the runtime's paths for workers, and the levels that work.

Modules and commands share it. Each level is tried once, by launching a worker at it without any grants.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import anyio
import anyio.to_thread

from paddock.errors import LevelFailure
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.machine import Machine
from paddock.isolation.mount_table import MountTable
from paddock.isolation.remedies import remedy
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.workers.capacity import check_capacity
from paddock.workers.early_template import begun
from paddock.workers.launcher import LaunchSpec
from paddock.workers.mount_guard import MountGuard
from paddock.workers.probe import Available, SandboxSupport, Unavailable, try_level
from paddock.workers.runtime import WorkerRuntime
from paddock.workers.scratch import remove_private_folder
from paddock.workers.worker_host import WorkerHost, close_within_bound, run_undisturbed
from paddock_sandbox.profile import IsolationLevel, SandboxProfile

_SCRATCH: Final[Mapping[IsolationLevel, str]] = {"ns": "/scratch", "bwrap": "/tmp"}  # noqa: S108 - of its own root
_AS_PYTHON_SAYS: Final = re.compile(r"^\w+Error: (?:\[Errno \d+\] )?")


class SandboxHost:
    """Knows the runtime of `workers`, and what this machine can do.

    `folder` is that of the whole host, which no module may change; `workers.folder` is the same, or this part's own.
    """

    def __init__(self, workers: WorkerHost, runtime: WorkerRuntime) -> None:
        """`runtime` is what workers run in; its mounts are found here."""
        covers = workers.folder / "empty"
        covers.mkdir()
        self.folder = workers.folder
        self.workers = workers
        self.paths = RuntimePaths.locate(runtime.interpreter, runtime.packages, covers)
        table = MountTable()
        self.paths.show(table, by_mounts=True)
        self.runtime = replace(runtime, mounts=table.mounts())
        self.mount_guard = MountGuard(self.runtime)
        self._works: dict[IsolationLevel, Available] = {}
        self._fails: dict[IsolationLevel, Unavailable] = {}

    @property
    def sandbox_support(self) -> SandboxSupport:
        """The results so far."""
        return SandboxSupport({**self._fails, **self._works})

    @classmethod
    @asynccontextmanager
    async def started(cls, *, for_commands: bool = False) -> AsyncIterator[Self]:
        """Make it with workers of its own, which are released at the end.

        Its template begins to load at once. With `for_commands`, packages that only modules need are not imported
        ahead; a module would start slowly.

        Raises:
            KindError: the system does not leave it what it needs.
        """
        check_capacity(1)  # before the template takes a part of it
        runtime = WorkerRuntime.locate(for_commands=for_commands)
        with begun(lambda: runtime):
            async with WorkerHost.started() as workers:
                host = cls(workers, runtime)
                try:
                    yield host
                finally:
                    await close_within_bound(workers.limit_enforcer.aclose)
                    await close_within_bound(host.mount_guard.aclose)

    @asynccontextmanager
    async def part(self) -> AsyncIterator[Self]:
        """Provide this host to one of several sessions, with a folder of its own that is removed at the end.

        The processes, the watchdog and the levels that work are those of the whole host. A level that fails is tried
        again by the next session: what it lacked may have been lacking for a moment only.
        """
        part = copy(self)
        part._fails = {}
        part.workers = replace(self.workers, folder=Path(tempfile.mkdtemp(prefix="session-", dir=self.folder)))
        try:
            yield part
        finally:  # in a thread: modules may have left any number of files
            await run_undisturbed(anyio.to_thread.run_sync(remove_private_folder, part.workers.folder))

    async def try_levels(self, levels: Iterable[IsolationLevel]) -> SandboxSupport:
        """Find out which of these levels work, one after the other, unless that is known."""
        for level in levels:
            if level not in self.sandbox_support.findings:
                self.record_trial(await try_level(level, self.workers.launcher_at(level), self._trial(level)))
        return self.sandbox_support

    def record_trial(self, found: Available | Unavailable) -> None:
        """Record what a worker showed that was launched with `tries_to_hold`, though for a purpose of its own.

        A level may fail for another worker all the same, since each asks less or more of it; each is judged again.
        """
        if isinstance(found, Available):
            self._works[found.level] = found
        else:
            self._fails[found.level] = found

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
    """Return why a level does not work, with what would help."""
    # The worker sends the error as Python shows it; its class and number are no help to a person.
    failure = LevelFailure(found.step, found.errno, _AS_PYTHON_SAYS.sub("", found.reason))
    return replace(failure, fix=remedy(found.level, failure, machine))
