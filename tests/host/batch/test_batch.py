"""Each task has exactly one result, and what others could see is repeated by no one in silence."""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host.batch.scripted_places import ScriptedPlaces, kept, run_all, task_file
from paddock.batch.batch import Batch, Repeat
from paddock.batch.ledger import LedgerError, Lines
from paddock.batch.place import Acted, Attempt, PlaceLostError, StaleAttemptError
from paddock.batch.task_file import TaskFileError
from paddock.errors import KindError
from support.examples import IN_FULL
from support.rows import each_row


async def _acts(attempt: Attempt, acted: Acted) -> None:
    await acted("tool-x", "append")


def _lost(*attempts: int, acts: bool) -> Callable[[Attempt, Acted], Any]:
    async def script(attempt: Attempt, acted: Acted) -> None:
        if acts:
            await acted("tool-x", "append")
        if attempt.number in attempts:
            raise PlaceLostError

    return script


@each_row(
    ("repeat", "acts", "lost", "status", "attempt", "acted"),
    [
        ("if-nothing-acted", False, [1], "done", 2, []),
        ("if-nothing-acted", False, [1, 2, 3], "lost", 3, []),
        ("if-nothing-acted", True, [1], "lost", 1, [1]),
        ("if-nothing-acted", True, [], "done", 1, [1]),
        ("always", True, [1], "done", 2, [1, 2]),
        ("always", True, [1, 2, 3], "lost", 3, [1, 2, 3]),
        ("never", False, [1], "lost", 1, []),
    ],
)
def test_a_lost_place_is_answered_by_the_table(
    repeat: Repeat, acts: bool, lost: list[int], status: str, attempt: int, acted: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batch = Batch(task_file(folder, 1), folder / "out", "plan", repeat=repeat, pause=lambda tries: 0)
        (result,) = anyio.run(run_all, batch, _lost(*lost, acts=acts))
        assert kept(folder / "out") == [result]
    assert (result.status, result.attempt, [act.attempt for act in result.acted]) == (status, attempt, acted)
    assert result.repeatable is not acts
    assert (result.error is not None) is (status == "lost")
    if status == "lost" and acts and repeat != "always":
        assert "`append` of tool-x in attempt 1" in str(result.error)


async def test_what_an_attempt_says_after_it_was_given_up_is_refused(tmp_path: Path) -> None:
    stale: list[Acted] = []

    async def script(attempt: Attempt, acted: Acted) -> None:
        stale.append(acted)
        if attempt.number == 1:
            raise PlaceLostError
        with pytest.raises(StaleAttemptError):
            await stale[0]("tool-x", "append")

    batch = Batch(task_file(tmp_path, 1), tmp_path / "out", "plan", pause=lambda tries: 0)
    (result,) = await run_all(batch, script)
    assert (result.status, result.attempt, result.acted) == ("done", 2, [])
    with pytest.raises(StaleAttemptError):
        await stale[1]("tool-x", "append")


async def test_a_stop_begins_nothing_and_a_resume_runs_the_rest(tmp_path: Path) -> None:
    tasks, out = task_file(tmp_path, 9), tmp_path / "out"
    batch = Batch(tasks, out, "plan")

    async def stops(attempt: Attempt, acted: Acted) -> None:
        batch.stop()

    assert len(await run_all(batch, stops, most=2)) <= 2
    await run_all(Batch(tasks, out, "plan", resumes=True), _acts)
    assert Counter(result.id for result in kept(out)) == Counter(f"t{number + 1}" for number in range(9))
    assert await run_all(Batch(tasks, out, "plan", resumes=True), _acts) == []


@pytest.mark.parametrize(("acts", "status", "attempt"), [(False, "done", 5), (True, "lost", 1)])
async def test_an_interruption_counts_once_it_acted(tmp_path: Path, acts: bool, status: str, attempt: int) -> None:
    tasks, out = task_file(tmp_path, 1), tmp_path / "out"
    for _ in range(1 if acts else 4):
        began = anyio.Event()

        async def waits(attempt: Attempt, acted: Acted, began: anyio.Event = began) -> None:
            if acts:
                await acted("tool-x", "append")
            began.set()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            group.start_soon(run_all, Batch(tasks, out, "plan", resumes=True), waits)
            await began.wait()
            group.cancel_scope.cancel()
    (result,) = await run_all(Batch(tasks, out, "plan", resumes=True), _acts)
    assert (result.status, result.attempt) == (status, attempt)


@each_row(
    ("error", "reported"),
    [
        (OSError(28, "No space left on device"), LedgerError),
        (KindError("NoPlaceError", "a node"), KindError),
        (ZeroDivisionError("a defect"), ZeroDivisionError),
    ],
    ids=repr,
)
def test_an_error_of_a_place_ends_the_run_and_is_reported(error: Exception, reported: type[Exception]) -> None:
    async def fails(attempt: Attempt, acted: Acted) -> None:
        raise error

    with tempfile.TemporaryDirectory() as name, pytest.raises(reported):
        batch = Batch(task_file(Path(name), 3), Path(name, "out"), "plan")
        anyio.run(run_all, batch, fails)


async def test_a_file_of_tasks_that_changes_lets_what_runs_end(tmp_path: Path) -> None:
    tasks = task_file(tmp_path, 3, prompt="x" * 20_000)  # more than is read at once
    batch = Batch(tasks, tmp_path / "out", "plan")

    async def changes(attempt: Attempt, acted: Acted) -> None:
        tasks.path.write_text("")

    with pytest.raises(TaskFileError):
        await run_all(batch, changes, most=1)
    assert kept(tmp_path / "out")


async def test_a_reader_that_leaves_early_ends_what_runs(tmp_path: Path) -> None:
    ended: list[str] = []

    async def script(attempt: Attempt, acted: Acted) -> None:
        try:
            await (anyio.sleep_forever() if attempt.task.id != "t1" else anyio.lowlevel.checkpoint())
        finally:
            ended.append(attempt.task.id)

    batch = Batch(task_file(tmp_path, 3), tmp_path / "out", "plan")
    async with aclosing(batch.results(ScriptedPlaces(script).opened)) as results:
        async for _ in results:
            break
    batch.close()
    assert set(ended) >= {"t1"} and len(ended) == len({*ended})
    assert batch.ledger.of(2).tries == 0


async def test_a_folder_that_is_not_of_this_run_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "t1" / "mine"
    mine.parent.mkdir()
    mine.touch()
    with pytest.raises(LedgerError, match="is there already"):
        await run_all(Batch(task_file(tmp_path, 1), tmp_path, "plan"), _acts)
    assert mine.exists()


class _Killed(BaseException):
    """The driver is gone."""


class _Driver:
    """A driver that is killed at one of its writes: the line is torn, and what was not synced may be gone."""

    def __init__(self, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self._chance = chance
        self._write = Lines.write
        monkeypatch.setattr(Lines, "write", lambda lines, value: self._writing(lines, value))
        monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)  # `cut` is the disk

    def _writing(self, lines: Lines, value: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Killed
        self._write(lines, value)

    def cut(self, batch: Batch) -> None:
        """Lose a part of what was not on the disk yet."""
        for lines in (batch.ledger.lines, batch.ledger.kept):
            with lines.path.open("r+b") as file:
                file.truncate(self._chance.randint(lines.synced, lines.path.stat().st_size))


@given(st.integers(0, 2**32), st.sampled_from(["if-nothing-acted", "always", "never"]))
@settings(max_examples=300 if IN_FULL else 5, deadline=None)
def test_nothing_is_repeated_in_silence_however_it_crashes(seed: int, repeat: Repeat) -> None:
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    losses = 0

    async def script(attempt: Attempt, acted: Acted) -> None:
        nonlocal losses
        for act in (False, True):
            await anyio.lowlevel.checkpoint()
            if act:
                await acted("tool-x", "append")
                seen[attempt.task.id] += 1
            if chance.random() < 0.15:
                losses += 1
                raise PlaceLostError

    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as monkeypatch:
        driver = _Driver(chance, monkeypatch)
        tasks, out = task_file(Path(name), 6), Path(name, "out")
        for kill in (*(chance.randint(1, 12) for _ in range(chance.randint(0, 3))), 10_000):
            driver.left = kill
            losses += 3  # as many may be on their way
            try:
                batch = Batch(tasks, out, "plan", repeat=repeat, resumes=True, pause=lambda tries: 0)
            except _Killed:
                continue
            try:
                anyio.run(run_all, batch, script, 3)
            except BaseException as error:
                assert kill < 10_000 and _is_kill(error), error
                driver.cut(batch)
        results = {result.id: result for result in kept(out)}
        assert len(results) == len(kept(out)) == 6
    for id, result in results.items():
        if result.status == "done":
            assert seen[id] >= 1
        assert seen[id] <= len(result.acted)  # each is in its line
        assert repeat == "always" or seen[id] <= 1
        assert result.repeatable is (not result.acted)
    assert sum(result.status == "lost" for result in results.values()) <= losses


def _is_kill(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_kill, error.exceptions))
    return isinstance(error, _Killed)
