"""The watchdog tells once of a tree that is beyond a limit, of no other, and keeps nobody waiting for it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from host.workers.trees import require_telling_who_borrows, tree
from paddock.workers.exit_report import LimitHit
from paddock.workers.limits import watchdog
from paddock.workers.limits.process_tree import TreeReading
from paddock.workers.limits.watchdog import INTERVAL, Watch, Watchdog, WatchedLimits
from support.rows import each_row

_MIB = 1 << 20
_PATIENCE = 60.0

Running = Callable[[Watchdog], AbstractAsyncContextManager[None]]


class StepClock:
    """Time passes only when the test says so."""

    def __init__(self) -> None:
        self.time = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    @property
    def sleepers(self) -> int:
        return len(self._sleepers)

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.time + seconds, woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        """Let time pass, and return once everybody who woke up has done what there was to do."""
        self.time += seconds
        for sleeper in [each for each in self._sleepers if each[0] <= self.time + 1e-9]:
            self._sleepers.remove(sleeper)
            sleeper[1].set()
        await settled()


async def settled() -> None:
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


class ScriptedTree:
    """A tree that is read as the test says, and counts how often it is asked what costs more."""

    def __init__(self, resident: int = 0, *, tasks: int = 1, estimate: int = 0, measured: Sequence[int] = ()) -> None:
        self.reading: TreeReading | None = TreeReading((7,), tasks, 0.0, resident)
        self.error: OSError | None = None
        self.estimated = estimate
        self.measured = list(measured)
        self.read_count = 0
        self.estimates = 0
        self.measurements = 0
        self.largest = ""  # of the processes that can be ended

    def uses(self, cpu_seconds: float) -> None:
        self.reading = TreeReading((7,), 1, cpu_seconds, 0)

    def read(self, most_tasks: int | None = None) -> TreeReading | None:
        self.read_count += 1
        if self.error is not None:
            raise self.error
        return self.reading

    def estimate(self, pids: Iterable[int]) -> int:
        self.estimates += 1
        return self.estimated

    def measure(self, pids: Iterable[int]) -> int:
        self.measurements += 1
        return self.measured.pop(0)

    def end_largest(self, spared: int) -> str:
        return self.largest


class Bench:
    """A watchdog with a clock of the test's own, and trees by number."""

    def __init__(self) -> None:
        self.clock = StepClock()
        self.trees: dict[int, ScriptedTree] = {}
        self.hits: list[tuple[int, LimitHit]] = []
        self.watchdog = Watchdog(clock=self.clock, tree_of=self.trees.__getitem__)
        self._watches: list[Watch] = []

    def watch(self, tree: ScriptedTree, memory_max: int | None = 64 * _MIB, tasks_max: int | None = 32) -> Watch:
        return self.watch_within(tree, WatchedLimits(memory_max, tasks_max))

    def watch_within(self, tree: ScriptedTree, limits: WatchedLimits) -> Watch:
        number = len(self.trees)
        self.trees[number] = tree
        watch = self.watchdog.watch(number, limits, lambda hit: self.hits.append((number, hit)))
        self._watches.append(watch)
        return watch

    @property
    def told_of(self) -> list[int]:
        return [number for number, _ in self.hits]

    async def until(self, is_so: Callable[[], object], *, passing: float = 0) -> None:
        """Return once something is so; meanwhile time passes in steps."""
        with anyio.fail_after(_PATIENCE):
            while not is_so():
                if passing:
                    await self.clock.advance(passing)
                await anyio.sleep(0.001)

    async def look(self) -> None:
        """Have every tree looked at once more, and whatever measuring that begins finished."""
        await self.clock.advance(INTERVAL)
        # Those who sleep now are the watchdog, and trees that wait for their second look.
        watches = self._watches
        await self.until(
            lambda: not any(one.is_being_measured or one.is_being_counted for one in watches), passing=INTERVAL / 10
        )
        await settled()


@asynccontextmanager
async def running(watchdog: Watchdog) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watchdog.run)
        await settled()
        yield
        tasks.cancel_scope.cancel()


@each_row(
    ("tree", "measured", "observed", "peak"),
    [
        # resident, estimate and what each measuring finds; how often it is measured, where that is sure
        ((63, 0), 0, None, 63),
        ((900, 10), 0, None, 10),  # files, and what was inherited
        ((90, 80, 70, 72.5), 2, "72.5 MiB", 72.5),  # once, though it is looked at three times more
        ((90, 80, 60, 60, 60, 60), None, None, 60),  # processes share a part of it
        ((90, 80, 70, 40, 70, 40, 70, 40, 70, 40), None, None, 40),  # it is over at each second look
    ],
    ids=["below", "files", "beyond", "shared", "over"],
)
async def test_a_tree_is_asked_no_more_than_it_takes_to_know(
    tree: tuple[float, ...], measured: int | None, observed: str | None, peak: float
) -> None:
    resident, estimate, *found = (int(mib * _MIB) for mib in tree)
    bench = Bench()
    looked_at = ScriptedTree(resident=resident, estimate=estimate, measured=found)
    watch = bench.watch(looked_at)
    async with running(bench.watchdog):
        for _ in range(3):
            await bench.look()
    assert measured in (None, looked_at.measurements)
    assert bool(looked_at.estimates) is (resident > 64 * _MIB)
    assert [hit for _, hit in bench.hits] == (
        [] if observed is None else [LimitHit("memory_max", 64 << 20, observed, "watchdog")]
    )
    assert watch.is_stopped is bool(bench.hits)
    assert watch.peak_memory == peak * _MIB


async def test_memory_that_is_swapped_out_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "swapped_bytes", lambda: 60 * _MIB)
    bench = Bench()
    bench.watch(ScriptedTree(resident=30 * _MIB, estimate=80 * _MIB, measured=[80 * _MIB] * 2))
    other = ScriptedTree(resident=30 * _MIB, estimate=31 * _MIB)
    watch = bench.watch(other)
    async with running(bench.watchdog):
        await bench.look()
    assert bench.told_of == [0]
    assert other.estimates == 2
    assert watch.peak_memory == 31 * _MIB


async def test_too_many_tasks_are_told_of_at_the_first_look() -> None:
    bench = Bench()
    bench.watch(ScriptedTree(tasks=33))
    bench.watch(ScriptedTree(tasks=32))
    endless = ScriptedTree()
    endless.reading = TreeReading((7,) * 40, 40, 0.0, 0, is_complete=False)
    bench.watch(endless)
    async with running(bench.watchdog):
        await bench.look()
    assert bench.hits == [
        (0, LimitHit("tasks_max", 32, "33", "watchdog")),
        (2, LimitHit("tasks_max", 32, "40 or more", "watchdog")),
    ]


async def test_a_tree_without_limits_is_never_told_of() -> None:
    bench = Bench()
    watch = bench.watch(ScriptedTree(resident=1 << 40, tasks=4000), memory_max=None, tasks_max=None)
    async with running(bench.watchdog):
        await bench.look()
    assert bench.hits == []
    assert watch.peak_memory == 1 << 40


async def test_a_stopped_watch_is_silent_even_in_the_middle_of_a_measurement() -> None:
    bench = Bench()
    hog = ScriptedTree(resident=90 * _MIB, estimate=80 * _MIB, measured=[80 * _MIB] * 2)
    watch = bench.watch(hog)
    async with running(bench.watchdog):
        await bench.until(lambda: bench.clock.sleepers == 2)  # the watchdog itself, and this tree between its two looks
        watch.stop()
        await bench.look()
    assert hog.measurements == 1
    assert bench.hits == []


async def test_a_tree_that_is_gone_is_watched_no_longer() -> None:
    bench = Bench()
    gone = ScriptedTree()
    watch = bench.watch(gone)
    async with running(bench.watchdog):
        gone.reading = None
        await bench.look()
        assert watch.is_stopped
        count = gone.read_count
        await bench.look()
    assert gone.read_count == count
    assert bench.hits == []


async def test_a_callback_that_fails_leaves_the_others_watched(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()

    def fail(hit: LimitHit) -> None:
        raise RuntimeError("no")

    bench.trees[0] = ScriptedTree(tasks=99)
    bench.watchdog.watch(0, WatchedLimits(tasks_max=1), fail)
    later = ScriptedTree()
    bench.watch(later)
    async with running(bench.watchdog):
        await bench.look()
        later.reading = TreeReading((7,), 99, 0.0, 0)
        await bench.look()
    assert bench.told_of == [1]
    assert "tasks_max failed" in caplog.text


async def test_a_tree_that_cannot_be_read_is_told_of_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    unreadable = ScriptedTree(tasks=99)
    unreadable.error = OSError(24, "Too many open files", "/proc/7/stat")
    watch = bench.watch(unreadable)
    with caplog.at_level(logging.WARNING):
        async with running(bench.watchdog):
            await bench.look()
            await bench.look()
            assert not watch.is_stopped
            assert caplog.text.count("Too many open files") == 1
            unreadable.error = None
            await bench.look()
    assert bench.told_of == [0]


async def test_a_tree_that_keeps_its_memory_locked_is_judged_by_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_MEASURE_SECONDS", 0.05)
    released = threading.Event()

    class LockedTree(ScriptedTree):
        def measure(self, pids: Iterable[int]) -> int:
            released.wait(_PATIENCE)
            return 0

    bench = Bench()
    bench.watch(LockedTree(resident=90 * _MIB, estimate=80 * _MIB))
    other = ScriptedTree()
    bench.watch(other)
    try:
        async with running(bench.watchdog):
            await bench.look()
            assert bench.told_of == [0]
            assert bench.hits[0][1].observed == "80 MiB"
            count = other.read_count
            await bench.look()
            assert other.read_count > count
    finally:
        released.set()


async def test_record_locks_are_judged_however_late_they_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "_SURVEY_SECONDS", 0.01)

    def count(pids: Iterable[int], most: int) -> int:
        time.sleep(0.2)  # far beyond the time for a survey
        return most + 1

    monkeypatch.setattr(watchdog, "record_locks", count)
    bench = Bench()
    bench.watch_within(ScriptedTree(), WatchedLimits(record_locks_max=10))
    async with running(bench.watchdog):
        with anyio.fail_after(_PATIENCE):
            while not bench.hits:
                await bench.look()
    assert [hit.observed for _, hit in bench.hits] == ["11 or more"]


async def test_counts_of_locks_that_take_long_delay_no_measuring_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    released, is_counting = threading.Event(), threading.Event()

    def count(pids: Iterable[int], most: int) -> int:
        is_counting.set()
        released.wait(_PATIENCE)
        return 0

    monkeypatch.setattr(watchdog, "record_locks", count)
    bench = Bench()
    for _ in range(4):  # more than are counted, or measured, at once
        bench.watch_within(ScriptedTree(), WatchedLimits(64 * _MIB, record_locks_max=10))
    async with running(bench.watchdog):
        await bench.until(is_counting.is_set, passing=INTERVAL)
        greedy = bench.trees[0]
        greedy.reading = TreeReading((7,), 1, 0.0, 90 * _MIB)
        greedy.estimated, greedy.measured = 90 * _MIB, [90 * _MIB] * 2
        await bench.until(lambda: bench.hits, passing=INTERVAL)
        assert bench.told_of == [0]
        assert greedy.measured == [], "it was measured, and not judged by the estimate"
        released.set()
        await bench.look()


async def test_a_measurement_that_takes_long_delays_no_other_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    class SlowTree(ScriptedTree):
        def measure(self, pids: Iterable[int]) -> int:
            released.wait(_PATIENCE)
            return 60 * _MIB

    bench = Bench()
    slow = SlowTree(resident=90 * _MIB, estimate=80 * _MIB)
    bench.watch(slow)
    other = ScriptedTree()
    bench.watch(other)
    async with running(bench.watchdog):
        other.reading = TreeReading((7,), 99, 0.0, 0)
        await bench.clock.advance(INTERVAL)
        assert bench.told_of == [1]
        assert slow.read_count > 2, "it is still looked at"
        released.set()
        await bench.look()
    assert len(bench.hits) == 1


async def test_a_tree_is_busy_as_long_as_it_uses_processor_time() -> None:
    bench = Bench()
    worker = ScriptedTree()
    watch = bench.watch(worker)
    assert watch.activity == "busy"
    async with running(bench.watchdog):
        assert watch.activity == "busy"
        for step in range(1, 10):
            worker.uses(step * 0.01)
            await bench.look()
            assert watch.activity == "busy"
        for _ in range(4):
            await bench.look()
        assert watch.activity == "busy", "it was, within the last second"
        for _ in range(2):
            await bench.look()
        assert watch.activity == "blocked"
        worker.uses(0.5)
        await bench.look()
        assert watch.activity == "busy"


async def test_a_watchdog_with_nothing_to_watch_sleeps_until_there_is() -> None:
    bench = Bench()
    async with running(bench.watchdog):
        assert bench.clock.sleepers == 0
        watch = bench.watch(ScriptedTree())
        await settled()
        assert bench.clock.sleepers == 1
        watch.stop()
        await bench.look()
        assert bench.clock.sleepers == 0


async def test_a_watchdog_can_be_cancelled_anywhere_and_run_again() -> None:
    bench = Bench()
    hog = ScriptedTree(resident=90 * _MIB, estimate=80 * _MIB, measured=[80 * _MIB] * 9)
    bench.watch(hog)
    async with running(bench.watchdog):
        await bench.until(lambda: bench.clock.sleepers == 2)
    assert bench.hits == []
    async with running(bench.watchdog):
        await bench.look()
    assert bench.told_of == [0]


async def test_others_on_the_loop_get_their_turn_between_trees() -> None:
    class SlowlyRead(ScriptedTree):
        def read(self, most_tasks: int | None = None) -> TreeReading | None:
            time.sleep(0.002)
            turns_at.append(turns)
            return super().read(most_tasks)

    bench = Bench()
    turns = 0
    turns_at: list[int] = []  # at the reading of each tree

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    for _ in range(20):
        bench.watch(SlowlyRead())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        async with running(bench.watchdog):
            with anyio.fail_after(_PATIENCE):
                while len(turns_at) < 20:
                    await anyio.lowlevel.checkpoint()
        assert len(set(turns_at)) == len(turns_at) == 20, "each tree was read in a turn of its own"
        tasks.cancel_scope.cancel()


# -- real trees ------------------------------------------------------------------------------------


async def first_hit(program: str, limits: WatchedLimits, patience: float = _PATIENCE) -> LimitHit | None:
    """Watch a real tree and return the limit it passes, or None when it passes none while it is watched."""
    hit = asyncio.get_running_loop().create_future()
    dog = Watchdog()
    with tree(program) as subject:
        dog.watch(subject.init_pid, limits, hit.set_result)
        async with running(dog):
            subject.begin()
            with anyio.move_on_after(patience):
                return await hit
    return None


async def test_memory_spread_over_daemons_that_left_their_session_is_summed() -> None:
    program = """
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        eaten = os.urandom(24 << 20)
        wait()
"""
    hit = await first_hit(program, WatchedLimits(memory_max=64 * _MIB))
    assert hit is not None
    assert (hit.name, hit.configured, hit.mechanism) == ("memory_max", "64 MiB", "watchdog")
    assert hit.observed.endswith("MiB") and 64 <= float(hit.observed.split()[0]) < 220
    assert await first_hit(program.replace("24 << 20", "4 << 20"), WatchedLimits(memory_max=64 * _MIB), 1.0) is None


async def test_a_real_tree_that_forks_too_often_is_told_of() -> None:
    program = "for _ in range(24):\n    if os.fork() == 0:\n        os.setsid()\n        wait()"
    hit = await first_hit(program, WatchedLimits(tasks_max=16))
    assert hit is not None
    assert (hit.name, hit.configured) == ("tasks_max", "16")
    assert await first_hit(program, WatchedLimits(tasks_max=25), 0.7) is None


@pytest.mark.exhaustive("no time")
@pytest.mark.parametrize("is_measured", [True, False], ids=["measured", "no time to measure"])
async def test_a_tree_near_its_limit_may_start_programs_all_the_time(
    is_measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_measured:  # as on a machine that has too much else to do
        require_telling_who_borrows()
        monkeypatch.setattr(watchdog, "_MEASURE_SECONDS", 0.0)
    program = """
import subprocess
eaten = os.urandom(40 << 20)
while True:
    subprocess.run(["/bin/sh", "-c", ":"], stdin=subprocess.DEVNULL, check=True)
    here()
"""
    hits: list[LimitHit] = []
    dog = Watchdog()
    with tree(program) as subject:
        watch = dog.watch(subject.init_pid, WatchedLimits(memory_max=64 * _MIB), hits.append)
        async with running(dog):
            subject.begin()
            end = time.monotonic() + 1.5
            started = 0
            while started <= 3 or time.monotonic() < end:
                with anyio.fail_after(_PATIENCE):
                    await anyio.to_thread.run_sync(subject.is_here)
                started += 1
    assert hits == []
    assert 40 * _MIB < watch.peak_memory < 64 * _MIB
