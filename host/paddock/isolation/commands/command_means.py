"""What workers that run commands are made with: an interpreter, launchers, a folder, and the levels that can be had.

All of it is made when it is entered, and given up, bounded in time, when it is left.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from paddock.isolation.commands.command_channel import ENTRY
from paddock.isolation.commands.command_profile import SCRATCH
from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.mount_table import MountTable
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.limits.tree_limits import LimitEnforcer
from paddock.workers.probe import SandboxSupport, probe_sandbox_support
from paddock.workers.runtime import WorkerRuntime
from paddock.workers.worker_host import WorkerHost
from paddock_sandbox.profile import IsolationLevel, SandboxProfile

# All that a worker that runs commands needs; the contract and its models would take two thirds of the start.
_PRELOAD: Final = ("paddock_sandbox.lockdown", "paddock_sandbox.self_check", "paddock_sdk.worker.commands")


@dataclass(frozen=True, slots=True)
class CommandMeans:
    """What workers for commands are made with; a session's own can be lent.

    `folder` is private to the host, and lasts as long as the rest. `try_levels` finds out which levels can be had.
    """

    runtime: WorkerRuntime
    paths: RuntimePaths
    folder: Path
    launcher_of: Callable[[IsolationLevel], Launcher]
    limit_enforcer: LimitEnforcer
    try_levels: Callable[[Iterable[IsolationLevel]], Awaitable[SandboxSupport]]

    @classmethod
    @asynccontextmanager
    async def of_ones_own(cls) -> AsyncIterator[Self]:
        """Have all that is needed made, and given up at the end."""
        async with WorkerHost.started() as workers:
            covers = workers.folder / "empty"
            covers.mkdir()
            located = WorkerRuntime.locate()
            paths = RuntimePaths.locate(located.interpreter, located.packages, covers)
            table = MountTable()
            paths.show(table, by_mounts=True)
            runtime = replace(located, mounts=table.mounts(), preload=_PRELOAD, entry=ENTRY)
            trials = _Trials(runtime, paths, workers.folder, workers.launcher_at)
            yield cls(runtime, paths, workers.folder, workers.launcher_at, workers.limit_enforcer, trials.try_levels)


class _Trials:
    """Finds out which levels can be had, each once."""

    def __init__(
        self,
        runtime: WorkerRuntime,
        paths: RuntimePaths,
        folder: Path,
        launcher_of: Callable[[IsolationLevel], Launcher],
    ) -> None:
        self._runtime = runtime
        self._paths = paths
        self._folder = folder
        self._launcher_of = launcher_of
        self._sandbox_support = SandboxSupport()

    async def try_levels(self, levels: Iterable[IsolationLevel]) -> SandboxSupport:
        """Try those of the levels that were not tried yet, by starting a worker that is granted nothing."""
        wanted = [level for level in levels if level not in self._sandbox_support.findings]
        found = await probe_sandbox_support(wanted, self._launcher_of, self._trial)
        self._sandbox_support = SandboxSupport({**self._sandbox_support.findings, **found.findings})
        return self._sandbox_support

    def _trial(self, level: IsolationLevel) -> LaunchSpec:
        mounts = self._runtime.mounts
        inside = SCRATCH.get(level)
        scratch = Path(inside) if inside else self._folder / "trial"
        if not inside:
            scratch.mkdir(mode=0o700, exist_ok=True)
        if level not in LEVELS_WITH_NAMESPACES:
            table = MountTable()
            self._paths.show(table, by_mounts=False)
            mounts = table.mounts()
        profile = SandboxProfile(level, mounts, scratch=str(scratch))
        return LaunchSpec("trial", scratch, {"HOME": os.fspath(scratch)}, self._runtime, profile)
