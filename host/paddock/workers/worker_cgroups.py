"""The workers of one process that bears them, and the control groups that it makes for them.

A group belongs to the worker's keeper from when the host is told of it, and to whoever made it before. When that one is
killed in between, or holds a group ready for the next worker, the group is left to the host. A group whose worker is
known here is never touched: what it counted is read when the worker has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from weakref import WeakSet

from paddock.workers.launcher import LaunchSpec, launch_through
from paddock.workers.pipes import ChildPipes
from paddock.workers.process import ModuleProcess
from paddock_sandbox.cgroup import CgroupHome

_logger = logging.getLogger(__name__)

_REMOVAL_SECONDS = 2.0  # for the kernel to let go of a tree that is dead


class WorkerCgroups:
    """What one template, or one interpreter that is started for one worker, brings into the world."""

    def __init__(self, groups: CgroupHome | None) -> None:
        """`groups` is where control groups can be made, if anywhere."""
        self._groups = None if groups is None else groups.for_one_maker()
        self._workers: WeakSet[ModuleProcess] = WeakSet()
        self._under_way = 0
        self._has_ended = False

    @property
    def cgroups(self) -> dict[str, object] | None:
        """Where the process is to make the groups, as plain data."""
        return None if self._groups is None else self._groups.as_dict()

    async def launch(self, spec: LaunchSpec, hand_over: Callable[[ChildPipes], Awaitable[None]]) -> ModuleProcess:
        """Return a worker that the process bears; see `launch_through`."""
        self._under_way += 1
        try:
            process = await launch_through(spec, hand_over)
            self._workers.add(process)
            return process
        finally:
            self._under_way -= 1
            self._tidy()

    def remove_groups(self) -> None:
        """Have the groups that nobody got removed, soon: the process that bore the workers is dead."""
        self._has_ended = True
        self._tidy()

    def _tidy(self) -> None:
        # A worker that is on its way may have a group that the host has not read of yet, or that it has yet to enter.
        if self._groups is None or not self._has_ended or self._under_way:
            return
        taken = {worker.cgroup.name for worker in self._workers if worker.cgroup is not None}
        asyncio.get_running_loop().run_in_executor(None, _remove, self._groups, taken)


def _remove(groups: CgroupHome, taken: Collection[str]) -> None:
    try:
        if not groups.remove_empty(taken, _REMOVAL_SECONDS):
            _logger.warning("a control group that was made for a worker is still in use, and stays")
    except Exception as error:  # there is nobody to raise it to
        _logger.warning("a control group that was made for a worker cannot be removed: %s", error)
