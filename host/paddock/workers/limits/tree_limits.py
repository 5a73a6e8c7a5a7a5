"""Keep each process tree within its limits, by the best means there is: a control group, else the watchdog.

No tree goes on without: if the watchdog fails, it begins anew, and all trees of the time are ended with that reason.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import anyio

from paddock.plan.units import size_text
from paddock.workers.exit_report import ExitReason, ExitStatus, LimitHit
from paddock.workers.limits.process_tree import ProcessTree, name_of
from paddock.workers.limits.totals import SharedTotal, TotalsWatch
from paddock.workers.limits.unmapped_memory import UnmappedMemory
from paddock.workers.limits.watchdog import INTERVAL, Watch, Watchdog, WatchedLimits
from paddock.workers.process import ModuleProcess
from paddock_sandbox.cgroup import Cgroup, CgroupReadings, CgroupUse

_RECORD_LOCKS_MAX = 2048  # which no control group counts; a database takes some five for each connection
_MOST_NAMED = 5  # processes that were there before one of them was killed, and are gone

REASONS: Final[Mapping[str, ExitReason]] = {
    "memory_max": ExitReason.MEMORY,
    "record locks": ExitReason.MEMORY,
    "tasks_max": ExitReason.TASKS,
}
"""Why a tree was ended, by the name of the limit that the watchdog saw passed; it has each `WatchedName`."""

_log = logging.getLogger(__name__)


class OnOverrun(Protocol):
    """Ends a tree for a reason; there is a limit that it passed, or a `detail` for people."""

    def __call__(self, reason: ExitReason, limit: LimitHit | None = None, *, detail: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """The limits of a process tree; None is no limit. `cpu_quota` is a fraction of one processor.

    `watches_tasks` means that no other mechanism counts tasks where there is no control group for it. `private_folder`
    is the tmpfs that only this tree uses, if it has one, as its processes see it. A tree that `runs_programs` loses the
    largest process first at the limit of memory; in another one, a call could wait for the answer of that process.
    `totals` are for it and others together.
    """

    memory_max: int | None = None
    tasks_max: int | None = None
    cpu_quota: float | None = None
    watches_tasks: bool = False
    private_folder: str = ""
    runs_programs: bool = False
    totals: tuple[SharedTotal, ...] = ()


class LimitEnforcer:
    """Puts limits on process trees; one for a host. It has to run."""

    def __init__(self, watchdog: Watchdog, totals_watch: TotalsWatch | None = None) -> None:
        self.totals_watch = totals_watch or TotalsWatch()
        self._watchdog = watchdog
        self._trees: WeakKeyDictionary[LimitedTree, tuple[ModuleProcess, OnOverrun]] = WeakKeyDictionary()
        self._is_over = False

    async def run(self) -> None:
        """Have the trees watched until cancelled."""
        async with anyio.create_task_group() as watches:
            watches.start_soon(self._keep, self._watchdog.run)
            watches.start_soon(self._keep, self.totals_watch.run)

    async def _keep(self, run: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await run()
            except Exception as error:
                _log.exception("the watch of all modules failed; they are ended, and it begins anew")
                found = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
                self._end_trees(f"the watch of its limits failed: {found}")
                await anyio.sleep(INTERVAL)

    async def aclose(self) -> None:
        """End every tree, and let none begin: nothing watches them from here on."""
        self._is_over = True
        ending = [process.wait() for process, _ in self._trees.values()]
        self._end_trees("its host was closed")
        await asyncio.gather(*ending)

    def _end_trees(self, detail: str) -> None:
        for _, end in [*self._trees.values()]:
            end(ExitReason.KILLED_BY_HOST, detail=detail)

    def begin(self, process: ModuleProcess, tree_limits: TreeLimits, on_overrun: OnOverrun) -> LimitedTree:
        """Put limits on a tree that runs nothing untrusted yet.

        Raises:
            OSError: a limit could not be set, or the host was closed.
        """
        if self._is_over:
            raise OSError(errno.ESHUTDOWN, "the host was closed")
        group = process.cgroup
        controllers = frozenset[str]() if group is None else group.controllers
        if group is not None:
            group.limit(
                memory_max=tree_limits.memory_max if "memory" in controllers else None,
                tasks_max=tree_limits.tasks_max if "pids" in controllers else None,
                cpu_quota=tree_limits.cpu_quota if "cpu" in controllers else None,
            )
        watched = WatchedLimits(
            memory_max=None if "memory" in controllers else tree_limits.memory_max,
            tasks_max=tree_limits.tasks_max if tree_limits.watches_tasks and "pids" not in controllers else None,
            record_locks_max=None if tree_limits.memory_max is None else _RECORD_LOCKS_MAX,
        )
        unmapped = None
        if watched.memory_max is not None:
            unmapped = UnmappedMemory(process.take_inquiry(), tree_limits.private_folder)
        watch, kernel_kill = None, None
        if group is not None and "memory" in controllers and tree_limits.memory_max:
            kernel_kill = _KernelKills(group, tree_limits.memory_max, process.pid).latest
        if watched != WatchedLimits():
            watch = self._watchdog.watch(
                process.init_pid,
                watched,
                lambda hit: on_overrun(REASONS[hit.name], hit),
                unmapped,
                kernel_kill,
                process.pid if tree_limits.runs_programs else None,
            )
        tree = LimitedTree(watch, tree_limits, group, process.init_pid)
        for total in tree_limits.totals:
            total.add(process.name, tree, on_overrun)
        self._trees[tree] = (process, on_overrun)
        return tree


class LimitedTree:
    """One tree with its limits."""

    def __init__(
        self, watch: Watch | None, tree_limits: TreeLimits, group: Cgroup | None = None, init_pid: int = 0
    ) -> None:
        self.tree_limits = tree_limits
        self.group_name = "" if group is None else group.name
        self._init_pid = init_pid
        self._watch = watch
        self._group = group
        self._met: dict[str, int] = {}

    def use(self) -> CgroupUse:
        """Return what the tree uses now: by its control group, else by its processes, in a millisecond or less."""
        try:
            counted = CgroupUse() if self._group is None else self._group.use()
            if None not in (counted.memory_bytes, counted.tasks, counted.cpu_seconds):
                return counted
            tree = ProcessTree(self._init_pid) if self._watch is None else self._watch.tree
            reading = tree.read()
            if reading is None:
                return CgroupUse()
            memory = counted.memory_bytes
            if memory is None:
                memory = reading.resident_bytes
                if self._watch is not None:
                    memory = tree.estimate(reading.pids) + self._watch.unmapped_memory
            tasks = reading.tasks if counted.tasks is None else counted.tasks
            return CgroupUse(memory, tasks, counted.cpu_seconds or reading.cpu_seconds)
        except OSError:  # it has ended, or may not be read
            return CgroupUse()

    def held_bytes(self) -> int:
        """Return the memory that the tree has, without cached files; may take long, so it is called in a thread."""
        try:
            counted = None if self._group is None else self._group.held_bytes()
            if counted is not None or self._watch is None:
                return counted or 0
            reading = self._watch.tree.read()
            return 0 if reading is None else self._watch.tree.measure(reading.pids) + self._watch.unmapped_memory
        except OSError:  # it has ended, or may not be read
            return 0

    def met(self, used: CgroupReadings | None = None) -> tuple[str, ...]:
        """Return the limits that programs met since this was asked last, as far as anything counts them.

        `used` is the last count of the tree's group, once that is gone.
        """
        try:
            used = used or (CgroupReadings() if self._group is None else self._group.readings())
        except OSError:  # the tree's end reads it again, and reports why it cannot be read
            return ()
        by_us = 0 if self._watch is None else self._watch.ended
        before = self._met
        self._met = {"tasks_max": used.tasks_refused or 0, "memory_max": (used.memory_kills or 0) + by_us}
        return tuple(name for name, times in self._met.items() if times > before.get(name, 0))

    def peak(self, status: ExitStatus) -> int | None:
        """Return the most memory that the whole tree held at once, as its limit counts it.

        Where nothing counts the tree, it is that of its largest process.
        """
        used = status.used
        if used is not None and used.memory_peak is not None:
            return used.memory_peak
        return (self._watch.peak_memory if self._watch is not None else 0) or status.peak_memory_bytes

    def end(self, status: ExitStatus) -> tuple[ExitReason, LimitHit] | None:
        """Note that the tree has ended; return the limit that ended it, if the kernel reports one."""
        for total in self.tree_limits.totals:
            total.remove(self)
        if self._watch is not None:
            self._watch.stop()
        used = status.used
        if used is None or not used.memory_kills or self.tree_limits.memory_max is None:
            return None
        if status.code is not None or status.signal not in (None, signal.SIGKILL):
            return None  # it was a child that the kernel killed for it, and the worker went on
        return ExitReason.MEMORY, _memory_hit(self.tree_limits.memory_max, used.memory_peak)


class _KernelKills:
    """Finds the kills at the limit of a group's memory, and has them meet the worker last."""

    def __init__(self, group: Cgroup, memory_max: int, worker: int) -> None:
        self._group = group
        self._memory_max = memory_max
        self._worker = worker
        self._names: dict[int, str] = {}  # of the marked processes
        self._new: frozenset[int] = frozenset()  # those whose program may be yet to start
        self._count = 0
        self._was_killed = False  # one that was not yet gone at the last look

    def latest(self) -> LimitHit | None:
        try:
            marked = self._group.mark_to_kill(self._worker, frozenset(self._names))
            count = self._group.memory_kills()
            hit = _memory_hit(self._memory_max, self._group.readings().memory_peak) if count > self._count else None
        except OSError:  # the tree's end reads it again, and reports why it cannot be read
            return None
        gone = [name for pid, name in self._names.items() if pid not in marked]
        known = self._names.keys() - self._new
        self._new = marked - self._names.keys()
        self._names = {pid: self._names[pid] if pid in known else name_of(pid) for pid in marked}
        if hit is None or not (gone or self._was_killed):
            self._was_killed = hit is not None  # the kernel counts a process that is still there for a moment
            return None
        self._was_killed, self._count = False, count
        return replace(hit, ended=(" or ".join(gone[:_MOST_NAMED]) or "a process",))


def _memory_hit(memory_max: int, peak: int | None) -> LimitHit:
    return LimitHit("memory_max", memory_max, "" if peak is None else size_text(peak), "cgroup memory")
