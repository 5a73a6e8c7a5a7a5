"""The launchers, watchdog and private folder of one host, which start processes on its behalf.

Made once and released once. Leaving it ends every process and task that it started, also after an error inside and when
leaving is cancelled; each wait is bounded. It knows nothing of modules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

import anyio
import anyio.to_thread

from paddock.workers.bwrap import BubblewrapLauncher
from paddock.workers.exec_launcher import ExecLauncher
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.group_search import find_groups
from paddock.workers.launcher import InTurn, Launcher
from paddock.workers.limits.totals import TotalsWatch
from paddock.workers.limits.tree_limits import LimitEnforcer
from paddock.workers.limits.watchdog import Watchdog
from paddock.workers.scratch import PrivateFolder, sweep
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import IsolationLevel

T = TypeVar("T")


_STOP_SECONDS: Final = 20.0  # for one of them to end; each is done long before
_LAUNCHES_AT_ONCE: Final = 16  # each has six descriptors on their way, of which a user may have only so many
_BEHIND_BUBBLEWRAP: Final = 2  # each has a descriptor of every mount
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerHost:
    """Starts processes; `folder` is the host's own, `groups` is where control groups can be made, if anywhere."""

    groups: CgroupHome
    folder: Path
    limit_enforcer: LimitEnforcer
    _launchers: Mapping[str, Launcher]

    @classmethod
    @asynccontextmanager
    async def started(cls) -> AsyncIterator[Self]:
        """Make all parts; at the end release them, the latest first, each even if an earlier release failed."""
        groups = await anyio.to_thread.run_sync(find_groups)
        await anyio.to_thread.run_sync(sweep)
        async with AsyncExitStack() as steps:
            folder = PrivateFolder()
            steps.push_async_callback(_removed, folder)
            tasks = asyncio.TaskGroup()
            await tasks.__aenter__()
            steps.push_async_callback(tasks.__aexit__, None, None, None)
            limit_enforcer = LimitEnforcer(Watchdog(), TotalsWatch(groups))
            steps.callback(tasks.create_task(limit_enforcer.run()).cancel)
            turns = anyio.CapacityLimiter(_LAUNCHES_AT_ONCE)
            forks, execs, wrapped = ForkServerLauncher(groups), ExecLauncher(groups), BubblewrapLauncher()
            for close in (forks.aclose, execs.aclose, wrapped.aclose):
                steps.push_async_callback(close_within_bound, close)
            launchers = {
                "template": InTurn(forks, turns),
                "exec": InTurn(execs, turns),
                "bubblewrap": InTurn(wrapped, anyio.CapacityLimiter(_BEHIND_BUBBLEWRAP)),
            }
            yield cls(groups, folder.path, limit_enforcer, launchers)

    def launcher_at(self, level: IsolationLevel, spawn: Literal["template", "exec"] = "template") -> Launcher:
        """Return the launcher for a level."""
        return self._launchers["bubblewrap" if level == "bwrap" else spawn]


async def close_within_bound(close: Callable[[], Awaitable[None]]) -> None:
    """Close something even if the caller is cancelled; neither an error nor a timeout stops the caller."""
    await run_undisturbed(_in_time(close))


async def _in_time(close: Callable[[], Awaitable[None]]) -> None:
    with anyio.move_on_after(_STOP_SECONDS):
        try:
            await close()
        except Exception:
            _log.exception("a part of the session could not be closed")


async def _removed(folder: PrivateFolder) -> None:
    # In a thread: modules may have left any number of files.
    await run_undisturbed(anyio.to_thread.run_sync(folder.remove))


async def run_undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`, which runs in a task of its own; raise a cancellation of the caller after it.

    A shielded scope alone holds off the cancellations of `anyio`, but none by `Task.cancel`. `work` bounds its own
    time.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    return task.result()
