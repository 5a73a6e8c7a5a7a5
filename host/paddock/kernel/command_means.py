"""What workers that run commands are made with: an interpreter, launchers, a folder, and the levels that can be had.

All of it is made when it is entered, and given up, bounded in time, when it is left.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import anyio
import anyio.from_thread
import anyio.to_thread

from paddock.kernel.command_profile import SCRATCH
from paddock.kernel.control_groups import find_groups
from paddock.kernel.private_folder import PrivateFolder, sweep
from paddock.policy import RuntimePaths
from paddock.policy.enforcement import LEVELS_WITH_NAMESPACES
from paddock.policy.mount_table import MountTable
from paddock.process.bubblewrap import bubblewrap_command
from paddock.process.command_runner import ENTRY
from paddock.process.exec import ExecLauncher
from paddock.process.launcher import Launcher, LaunchSpec
from paddock.process.ration import Rationing
from paddock.process.reach import Reach, find_reach
from paddock.process.runtime import WorkerRuntime
from paddock.process.template import TemplateLauncher
from paddock.process.watchdog import Watchdog
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
    rationing: Rationing
    try_levels: Callable[[Iterable[IsolationLevel]], Awaitable[Reach]]

    @classmethod
    @asynccontextmanager
    async def of_ones_own(cls) -> AsyncIterator[Self]:
        """Have all that is needed made, and given up at the end."""
        groups = await anyio.to_thread.run_sync(find_groups)
        async with AsyncExitStack() as stack:
            await anyio.to_thread.run_sync(sweep)
            private = PrivateFolder()
            stack.push_async_callback(_remove, private)
            folder = private.path
            covers = folder / "empty"
            covers.mkdir()
            located = WorkerRuntime.locate()
            paths = RuntimePaths.locate(located.interpreter, located.packages, covers)
            table = MountTable()
            paths.show(table, by_mounts=True)
            runtime = replace(located, mounts=table.mounts(), preload=_PRELOAD, entry=ENTRY)
            template = TemplateLauncher(groups)
            bubblewrap = ExecLauncher(None, bubblewrap_command)  # in its namespaces no groups can be made
            for launcher in (template, bubblewrap):
                stack.push_async_callback(_shielded, launcher.aclose)
            watchdog = Watchdog()
            watching = asyncio.create_task(watchdog.run())
            stack.push_async_callback(_cancel, watching)

            def launcher_of(level: IsolationLevel) -> Launcher:
                return bubblewrap if level == "bwrap" else template

            trials = _Trials(runtime, paths, folder, launcher_of)
            yield cls(runtime, paths, folder, launcher_of, Rationing(watchdog), trials.try_levels)


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
        self._reach = Reach()

    async def try_levels(self, levels: Iterable[IsolationLevel]) -> Reach:
        """Try those of the levels that were not tried yet, by starting a worker that is granted nothing."""
        wanted = [level for level in levels if level not in self._reach.findings]
        found = await find_reach(wanted, self._launcher_of, self._trial)
        self._reach = Reach({**self._reach.findings, **found.findings})
        return self._reach

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


async def _remove(folder: PrivateFolder) -> None:
    await _shielded(lambda: anyio.to_thread.run_sync(folder.remove))


async def _shielded(act: Callable[[], Awaitable[None]]) -> None:
    with anyio.CancelScope(shield=True):
        await act()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
