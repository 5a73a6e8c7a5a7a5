"""The ledger: what it refuses, what a crash leaves of it, and that it is on the disk before what it permits."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from host.batch.scripted_places import task_file
from paddock.batch.ledger import Ledger, LedgerError
from paddock.batch.place import StaleAttemptError
from paddock.batch.result import TaskResult
from paddock.batch.task import Task
from paddock.batch.task_file import Shard, TaskFile

_TASK = Task(id="t1", prompt="hello")
_DONE = TaskResult(id="t1", attempt=1, node="here", status="done", response="\u202e\x1b")


@pytest.fixture
def tasks(tmp_path: Path) -> TaskFile:
    return task_file(tmp_path, 3)


@pytest.fixture
def begun(tmp_path: Path, tasks: TaskFile) -> Path:
    """Return a folder whose ledger has a claim of the first task."""
    ledger = Ledger(tmp_path / "out", tasks, "plan", resumes=False)
    anyio.run(ledger.claim, 1, _TASK, "here")
    ledger.close()
    return tmp_path / "out"


def _add(out: Path, line: str) -> None:
    with (out / "ledger.jsonl").open("a") as file:
        file.write(f"{line}\n")


@pytest.mark.parametrize(
    ("spoil", "plan", "said"),
    [
        (lambda out: None, "other", "is of another plan"),
        (lambda out: (out.parent / "tasks.jsonl").write_text('{"id": "b", "prompt": "x"}'), "plan", "file of tasks"),
        (lambda out: _add(out, "{}"), "plan", "line 3 is no record"),
        (lambda out: _add(out, "["), "plan", "line 3 is no record"),
        (lambda out: (out / "results.jsonl").write_text("{}\n"), "plan", "results.jsonl` is damaged"),
        (lambda out: (out / "ledger.jsonl").rename(out / "ledger-1-of-2.jsonl"), "plan", "shared out otherwise"),
        (lambda out: (out / "ledger.jsonl").rename(out / "results.jsonl"), "plan", "their ledger is gone"),
    ],
    ids=["another plan", "other tasks", "an unknown record", "no JSON", "no result", "other shards", "no ledger"],
)
def test_a_ledger_of_something_else_is_refused(
    begun: Path, tasks: TaskFile, spoil: Callable[[Path], object], plan: str, said: str
) -> None:
    spoil(begun)
    now = TaskFile.checked(tasks.path, tasks.shard)
    with pytest.raises(LedgerError, match=said) as raised:
        Ledger(begun, now, plan, resumes=True)
    assert raised.value.hints


def test_an_earlier_run_and_a_running_one_are_refused(begun: Path, tasks: TaskFile) -> None:
    with pytest.raises(LedgerError, match="earlier run"):
        Ledger(begun, tasks, "plan", resumes=False)
    ledger = Ledger(begun, tasks, "plan", resumes=True)
    with pytest.raises(LedgerError, match="in use"):
        Ledger(begun, tasks, "plan", resumes=True)
    ledger.close()
    Ledger(begun, tasks, "plan", resumes=True).close()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, tasks: TaskFile) -> None:
    for out in (tasks.path / "out", Path("/proc/out")):
        with pytest.raises(LedgerError, match="cannot be written"):
            Ledger(out, tasks, "plan", resumes=False)


async def test_a_ledger_is_that_of_the_first_plan_with_which_something_began(tmp_path: Path, tasks: TaskFile) -> None:
    Ledger(tmp_path / "out", tasks, "one", resumes=False).close()
    ledger = Ledger(tmp_path / "out", tasks, "two", resumes=False)
    await ledger.claim(1, _TASK, "here")
    ledger.close()
    run, claimed = map(json.loads, (tmp_path / "out/ledger.jsonl").read_text().splitlines())
    assert (run["plan"], claimed["what"]) == ("two", "claimed")


def test_a_torn_last_line_counts_for_nothing(begun: Path, tasks: TaskFile) -> None:
    ledger, results = begun / "ledger.jsonl", begun / "results.jsonl"
    for file in (ledger, results):
        with file.open("a") as open_file:
            open_file.write('{"what": "done", "id": "t1", "line": 1, "attem')
    found = Ledger(begun, tasks, "plan", resumes=True)
    assert found.of(1).tries == 1 and not found.has_ended(1)
    anyio.run(found.end, 1, _DONE)
    found.close()
    assert len(ledger.read_text().splitlines()) == 3 and len(results.read_text().splitlines()) == 1


def test_a_result_without_its_record_is_the_tasks(begun: Path, tasks: TaskFile) -> None:
    (begun / "results.jsonl").write_text(_DONE.model_dump_json() + "\n")
    found = Ledger(begun, tasks, "plan", resumes=True)
    found.close()
    assert found.has_ended(1) and found.counts == {"done": 1}


def test_what_is_kept_is_plain_ascii(begun: Path, tasks: TaskFile) -> None:
    ledger = Ledger(begun, tasks, "plan", resumes=True)
    anyio.run(ledger.end, 1, _DONE)
    ledger.close()
    assert (begun / "results.jsonl").read_text().rstrip("\n").isprintable()


async def test_names_that_modules_chose_leave_the_ledger_readable(begun: Path, tasks: TaskFile) -> None:
    ledger = Ledger(begun, tasks, "plan", resumes=True)
    attempt = await ledger.claim(1, _TASK, "here")
    await ledger.act(1, _TASK, attempt, "tool-\udc80", "x" * 100_000)
    ledger.close()
    found = Ledger(begun, tasks, "plan", resumes=True)
    found.close()
    (act,) = found.of(1).acted
    assert act.module == "tool-\\udc80" and len(act.tool) < 1000


async def test_records_of_one_moment_share_a_sync(
    tmp_path: Path, tasks: TaskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fdatasync

    def counted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    ledger = Ledger(tmp_path / "out", tasks, "plan", resumes=False)
    synced.clear()
    sizes: list[tuple[int, int]] = []

    async def claim(line: int) -> None:
        await ledger.claim(line, Task(id=f"t{line}", prompt="x"), "here")
        sizes.append((line, synced[-1]))

    async with anyio.create_task_group() as group:
        for line in (1, 2, 3):
            group.start_soon(claim, line)
    ledger.close()
    written = (tmp_path / "out/ledger.jsonl").read_bytes()
    assert len(synced) <= 2
    assert all(f'"line": {line}'.encode() in written[:size] for line, size in sizes)


async def test_a_sync_that_failed_has_failed_for_all_that_wait(
    begun: Path, tasks: TaskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(begun, tasks, "plan", resumes=True)
    attempt = await ledger.claim(1, _TASK, "here")
    failures = [OSError(5, "Input/output error")]  # of which the kernel tells once

    def fails_once(descriptor: int) -> None:
        if failures:
            raise failures.pop()

    monkeypatch.setattr(os, "fdatasync", fails_once)
    acts = [ledger.act(1, _TASK, attempt, "tool-x", "append") for _ in range(3)]
    assert [type(end) for end in await asyncio.gather(*acts, return_exceptions=True)] == [OSError] * 3
    ledger.close()


async def test_an_act_of_an_attempt_that_is_given_up_meanwhile_is_refused(
    begun: Path, tasks: TaskFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(begun, tasks, "plan", resumes=True)
    attempt = await ledger.claim(1, _TASK, "here")
    sync = os.fdatasync

    def loses_its_place(descriptor: int) -> None:
        ledger.give_up(1)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", loses_its_place)
    with pytest.raises(StaleAttemptError):
        await ledger.act(1, _TASK, attempt, "tool-x", "append")
    ledger.close()
    assert ledger.of(1).acted  # so that nothing repeats it in silence


def test_shards_of_one_folder_have_files_of_their_own(tmp_path: Path) -> None:
    ledgers = [
        Ledger(tmp_path / "out", task_file(tmp_path, 3, Shard(number, 2)), "plan", resumes=False) for number in (1, 2)
    ]
    assert [ledger.kept.path.name for ledger in ledgers] == ["results-1-of-2.jsonl", "results-2-of-2.jsonl"]
    for ledger in ledgers:
        ledger.close()
