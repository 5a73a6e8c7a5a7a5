"""Watch from outside that the process trees of all modules stay within their limits, where no control group does it.

There is one watchdog for a host. Five times a second it looks at each tree, and it calls back once when a limit is
passed. So a tree may exceed a limit by as much as it can in a fifth of a second. A look takes some 50 microseconds; the
loop gets its turn every millisecond, and slow reads happen in a thread. A tree that cannot be read is reported and
tried again. The watchdog does not know how a tree is ended.

Of a tree that runs programs and is beyond its memory, the largest process but the worker is ended first. The limit is
passed if that did not help, or at the third such end within ten seconds. In a control group the kernel ends it.

Memory that a tree holds and none of its processes maps counts as well: every two seconds, and at once when the tree has
so much open that it could be beyond the limit by that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import anyio
import anyio.lowlevel
import anyio.to_thread

from paddock.plan.units import size_text
from paddock.workers.exit_report import LimitHit
from paddock.workers.limits.process_tree import ProcessTree, TreeReading, swapped_bytes
from paddock.workers.limits.record_locks import record_locks
from paddock.workers.limits.unmapped_memory import SOCKET_MOST, UnmappedMemory

_logger = logging.getLogger(__name__)
INTERVAL = 0.2  # seconds from one look at all trees to the next
_LOOKS_TO_A_SURVEY = 10
_SURVEY_SECONDS = 5.0  # far more than it takes; an obstacle such as many mappings ends it early
_SLICE_SECONDS = 0.001  # for which other callbacks on the loop wait
_MEASURE_SECONDS = 0.5  # enough for 50 GiB; a tree that keeps its memory locked for longer is judged by the estimate
_SECOND_LOOK_SECONDS = 0.02  # a child that borrows its parent's memory until it executes a program is done by then
_ENDED_MAX = 3  # processes of a tree, for its memory, within so many seconds
_ENDED_SECONDS = 10.0
_MEASUREMENTS_AT_ONCE = 2
_COUNTS_AT_ONCE = 1  # of record locks, which may take long for a module with many open files
_ACTIVITY_SECONDS = 1.0
Activity = Literal["busy", "blocked"]
WatchedName = Literal["memory_max", "tasks_max", "record locks"]
"""The name of a limit in a hit; `LimitEnforcer` has an exit reason for each."""


class Clock:
    """The machine's own monotonic clock, which can be waited on."""

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return that much later."""
        await anyio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class WatchedLimits:
    """What a tree may use: bytes of memory, processes and threads together, record locks; None is no limit."""

    memory_max: int | None = None
    tasks_max: int | None = None
    record_locks_max: int | None = None


KernelKill = Callable[[], LimitHit | None]
"""Returns the limit at which the kernel has killed a process since the last look, with that in `ended`, if it has."""


def _ignore(hit: LimitHit) -> None:
    """Do nothing about a limit of a tree that is watched no longer."""


class Watch:
    """One tree, watched until it is gone, passes a limit, or `stop` is called.

    `peak_memory` is the most that was seen. Shared memory may be counted in each process, but never so that the peak
    would be beyond a limit that was kept. `unmapped_memory` is the latest count of what no process maps. `ended` counts
    the processes that the watchdog ended. `tree` is what it looks at.
    """

    def __init__(
        self,
        tree: ProcessTree,
        limits: WatchedLimits,
        on_exceeded: Callable[[LimitHit], None],
        unmapped: UnmappedMemory | None = None,
        kernel_kill: KernelKill | None = None,
        worker: int | None = None,
    ) -> None:
        self.peak_memory = 0
        self.unmapped_memory = 0
        self.ended = 0
        self.is_stopped = False
        self.is_being_measured = False
        self.is_being_counted = False
        self.tree = tree
        self._limits = limits
        self._on_exceeded = on_exceeded
        self._unmapped = unmapped
        self._kernel_kill = kernel_kill
        self._worker = worker
        self._latest_ends: deque[tuple[float, str]] = deque(maxlen=_ENDED_MAX)  # when, and what it was
        self._looks = 0
        self._processor: deque[tuple[float, float]] = deque()  # seconds used, and when
        self._was_readable = True

    @property
    def activity(self) -> Activity:
        """Whether the tree has used processor time within the last second; `busy` until two looks can show it."""
        used = [seconds for seconds, _ in self._processor]
        return "blocked" if len(used) > 1 and used[-1] <= used[0] else "busy"

    def stop(self) -> None:
        """Watch no longer; nothing is called back from now on."""
        self.is_stopped = True
        # The watchdog may keep a stopped watch until its next look, and the callback leads to a whole session.
        self._on_exceeded = _ignore
        self._release()

    def look(self, now: float, swapped: int) -> bool:
        """Look at the tree, on a machine with so much swapped out; return whether it has to be measured."""
        self._looks += 1
        hit = None if self._kernel_kill is None else self._kernel_kill()
        if hit is not None and self._is_last_end(*hit.ended, now=now):
            self._report(hit)
        if self.is_stopped or self._is_only_counted:
            return False
        try:
            reading = self.tree.read(self._limits.tasks_max)
            if reading is None:
                self.stop()
                return False
            self._processor.append((reading.cpu_seconds, now))
            while len(self._processor) > 2 and now - self._processor[1][1] >= _ACTIVITY_SECONDS:
                self._processor.popleft()
            most = self._limits.tasks_max
            if most is not None and reading.tasks > most:
                self._exceeded("tasks_max", most, f"{reading.tasks}{'' if reading.is_complete else ' or more'}")
            needs_measuring = not self.is_stopped and (
                self._may_be_beyond(reading, swapped) or (self._unmapped is not None and self._is_due_for_survey)
            )
        except OSError as error:
            if self._was_readable:
                _logger.warning("a module's limits cannot be watched at this look: %s", error)
            self._was_readable = False
            return False
        self._was_readable = True
        return needs_measuring

    async def measure(self, clock: Clock, limiter: anyio.CapacityLimiter) -> None:
        """Measure the tree's memory, and again if that is beyond the limit; only a second such result counts.

        Then the largest process but the worker is ended; if there is none, or this did not help, the limit is passed.
        """
        self.is_being_measured = True
        try:
            if not await self._memory_beyond(limiter):
                return
            await clock.sleep(_SECOND_LOOK_SECONDS)
            if not (memory := await self._memory_beyond(limiter, counts=True)):
                return
            if self._worker is not None:
                self.ended += 1  # before the worker can notice
                ended = await anyio.to_thread.run_sync(self.tree.end_largest, self._worker, limiter=limiter)
                if ended and not self._is_last_end(ended, now=clock.now()):
                    memory = await self._memory_beyond(limiter, counts=True)
            if memory and self._limits.memory_max is not None:
                self._exceeded("memory_max", self._limits.memory_max, size_text(memory))
        except OSError as error:
            _logger.warning("a module's memory cannot be measured at this look: %s", error)
        finally:
            self.is_being_measured = False
            if self.is_stopped:
                self._release()

    async def count_locks(self, limiter: anyio.CapacityLimiter) -> None:
        """Count the tree's record locks; no measuring of memory waits for that, of this tree or another."""
        limit = self._limits.record_locks_max
        assert limit is not None  # a count is due only then
        self.is_being_counted = True
        try:
            reading = None if self.is_stopped else self.tree.read(self._limits.tasks_max)
            if reading is None:
                return
            # However late on a busy machine: no estimate could take its place. How much is read has a bound.
            held = await anyio.to_thread.run_sync(
                record_locks, reading.pids, limit, abandon_on_cancel=True, limiter=limiter
            )
            if held > limit:
                self._exceeded("record locks", limit, f"{held} or more")
        except OSError as error:
            _logger.warning("a module's record locks cannot be counted at this look: %s", error)
        finally:
            self.is_being_counted = False

    @property
    def _is_only_counted(self) -> bool:
        limits = self._limits
        return limits.record_locks_max is not None and limits.memory_max is None and limits.tasks_max is None

    @property
    def is_due_for_count(self) -> bool:
        """Whether the tree's record locks are to be counted after this look."""
        return self._limits.record_locks_max is not None and not self.is_being_counted and self._is_due_for_survey

    @property
    def _is_due_for_survey(self) -> bool:
        return self._looks % _LOOKS_TO_A_SURVEY == 0

    def _may_be_beyond(self, reading: TreeReading, swapped: int) -> bool:
        """Return whether the memory can be beyond the limit, reading no more than is needed to rule it out."""
        limit = self._limits.memory_max
        unmapped = self._most_unmapped(reading)
        most = reading.resident_bytes
        if limit is not None and most + unmapped + swapped > limit:
            most = self.tree.estimate(reading.pids)
            if most + unmapped > limit:
                return True
        self.peak_memory = max(self.peak_memory, most)
        return False

    def _is_last_end(self, what: str, *, now: float) -> bool:
        """Note that a process of the tree was ended for memory; return whether the tree is to follow it."""
        self._latest_ends.append((now, what))
        if self._worker is None:
            return True
        return len(self._latest_ends) == _ENDED_MAX and now - self._latest_ends[0][0] <= _ENDED_SECONDS

    async def _memory_beyond(self, limiter: anyio.CapacityLimiter, *, counts: bool = False) -> int:
        """Return the tree's memory if it is beyond the limit, else 0."""
        limit = self._limits.memory_max
        reading = None if self.is_stopped else self.tree.read(self._limits.tasks_max)
        if reading is None or limit is None:
            return 0
        memory = self.tree.estimate(reading.pids)
        unmapped = await self._survey(reading, limit, limiter)
        if memory + unmapped > limit:
            with anyio.move_on_after(_MEASURE_SECONDS):
                memory = await anyio.to_thread.run_sync(
                    self.tree.measure, reading.pids, abandon_on_cancel=True, limiter=limiter
                )
        memory += unmapped
        if counts or memory <= limit:
            self.peak_memory = max(self.peak_memory, memory)
        return memory if memory > limit else 0

    def _most_unmapped(self, reading: TreeReading) -> int:
        """Return the most that a tree can hold unread in what it has open, but for sockets of a network."""
        return 0 if self._unmapped is None else reading.descriptors * SOCKET_MOST

    async def _survey(self, reading: TreeReading, limit: int, limiter: anyio.CapacityLimiter) -> int:
        """Return what the tree holds and does not map; if that takes too long to see, the most it can hold."""
        if self._unmapped is None:
            return 0
        with anyio.move_on_after(_SURVEY_SECONDS):
            self.unmapped_memory = await anyio.to_thread.run_sync(
                self._unmapped.held_by, reading.pids, limit, abandon_on_cancel=True, limiter=limiter
            )
            return self.unmapped_memory
        return self._most_unmapped(reading)

    def _release(self) -> None:
        """Release the means of counting, unless a count is going on."""
        if self._unmapped is not None and not self.is_being_measured:
            self._unmapped.close()

    def _exceeded(self, name: WatchedName, limit: float, observed: str) -> None:
        self._report(LimitHit(name, limit, observed, "watchdog"))

    def _report(self, hit: LimitHit) -> None:
        if self.is_stopped:
            return
        on_exceeded = self._on_exceeded
        self.stop()
        if hit.name == "memory_max":
            hit = replace(hit, ended=tuple(what for _, what in self._latest_ends))
        try:
            on_exceeded(hit)
        except Exception:  # an error in one tree must not stop the watch of the others
            _logger.exception("what was to be done about a module beyond its %s failed", hit.name)


class Watchdog:
    """Looks at all trees in turn, while `run` runs."""

    def __init__(self, *, clock: Clock | None = None, tree_of: Callable[[int], ProcessTree] = ProcessTree) -> None:
        self._clock = clock or Clock()
        self._tree_of = tree_of
        self._watches: list[Watch] = []
        self._wanted = asyncio.Event()

    def watch(
        self,
        init_pid: int,
        limits: WatchedLimits,
        on_exceeded: Callable[[LimitHit], None],
        unmapped: UnmappedMemory | None = None,
        kernel_kill: KernelKill | None = None,
        worker: int | None = None,
    ) -> Watch:
        """Watch the tree below a process from now on; call back on the loop once it has passed a limit.

        To be called before anything untrusted runs there: the memory that the tree has now counts as inherited, unless
        the kernel gives a better figure. The callback must not raise. With `unmapped`, its count is part of the tree's
        memory too; the counter is closed when the watch ends. `kernel_kill` is asked at each look. With `worker`,
        which is ended only with its tree, another process of the tree is ended first.

        Raises:
            OSError: there is no such process, or it cannot be read.
        """
        watch = Watch(self._tree_of(init_pid), limits, on_exceeded, unmapped, kernel_kill, worker)
        self._watches.append(watch)
        self._wanted.set()
        return watch

    async def run(self) -> None:
        """Look until cancelled; one `run` at a time."""
        limiter, counts = anyio.CapacityLimiter(_MEASUREMENTS_AT_ONCE), anyio.CapacityLimiter(_COUNTS_AT_ONCE)
        async with anyio.create_task_group() as measurements:
            while True:
                for watch in await self._look_at_all():
                    measurements.start_soon(watch.measure, self._clock, limiter)
                for watch in self._watches:
                    if not watch.is_stopped and watch.is_due_for_count:
                        measurements.start_soon(watch.count_locks, counts)
                if self._watches:
                    await self._clock.sleep(INTERVAL)
                else:
                    self._wanted.clear()
                    await self._wanted.wait()

    async def _look_at_all(self) -> list[Watch]:
        """Look at every tree and return those whose memory is to be measured."""
        self._watches = [watch for watch in self._watches if not watch.is_stopped]
        swapped = swapped_bytes() if self._watches else 0
        to_measure = []
        slice_ends = time.perf_counter() + _SLICE_SECONDS
        for watch in tuple(self._watches):
            if not watch.is_stopped and watch.look(self._clock.now(), swapped) and not watch.is_being_measured:
                to_measure.append(watch)
            if time.perf_counter() > slice_ends:
                await anyio.lowlevel.checkpoint()
                slice_ends = time.perf_counter() + _SLICE_SECONDS
        return to_measure
