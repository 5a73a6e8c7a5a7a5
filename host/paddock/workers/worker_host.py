"""What starts processes on behalf of one host: launchers, a watchdog, and a private folder that goes with them.

Made once and given up once. Leaving ends every process and task that came from here, whatever happened inside and also
when the leaving itself is cancelled; each wait on the way is bounded. Knows nothing of modules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

import anyio
import anyio.to_thread

from paddock.workers.bwrap import bubblewrap_command
from paddock.workers.exec_launcher import ExecLauncher
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.launcher import Launcher
from paddock.workers.limits.control_groups import find_groups
from paddock.workers.limits.tree_limits import LimitEnforcer
from paddock.workers.limits.watchdog import Watchdog
from paddock.workers.scratch import PrivateFolder, sweep
from paddock.workers.undisturbed import run_undisturbed
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import IsolationLevel

_STOP_SECONDS: Final = 20.0  # for one of them to end; each is done long before

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
        """Make all of it, and give it up at the end, the latest first and each although one before it failed."""
        groups = await anyio.to_thread.run_sync(find_groups)
        await anyio.to_thread.run_sync(sweep)
        async with AsyncExitStack() as steps:
            folder = PrivateFolder()
            steps.push_async_callback(_removed, folder)
            tasks = asyncio.TaskGroup()
            await tasks.__aenter__()
            steps.push_async_callback(tasks.__aexit__, None, None, None)
            watchdog = Watchdog()
            steps.callback(tasks.create_task(watchdog.run()).cancel)
            launchers: dict[str, Launcher] = {
                "template": ForkServerLauncher(groups),
                "exec": ExecLauncher(groups),
                "bubblewrap": ExecLauncher(None, bubblewrap_command),  # in its namespaces no groups can be made
            }
            for launcher in launchers.values():
                steps.push_async_callback(close_within_bound, launcher.aclose)
            yield cls(groups, folder.path, LimitEnforcer(watchdog), launchers)

    def launcher_at(self, level: IsolationLevel, spawn: Literal["template", "exec"] = "template") -> Launcher:
        """Return what starts processes at a level."""
        return self._launchers["bubblewrap" if level == "bwrap" else spawn]


async def close_within_bound(close: Callable[[], Awaitable[None]]) -> None:
    """Give something up, whoever is cancelled meanwhile; what it raises or how long it takes is no reason to stop."""
    await run_undisturbed(_in_time(close))


async def _in_time(close: Callable[[], Awaitable[None]]) -> None:
    with anyio.move_on_after(_STOP_SECONDS):
        try:
            await close()
        except Exception:
            _log.exception("something of the session could not be closed")


async def _removed(folder: PrivateFolder) -> None:
    # In a thread: modules may have left any number of files.
    await run_undisturbed(anyio.to_thread.run_sync(folder.remove))
