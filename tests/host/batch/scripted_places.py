"""Places that run no session: each attempt does what a function says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from paddock.batch.batch import Batch
from paddock.batch.place import Acted, Attempt, Place
from paddock.batch.result import TaskResult
from paddock.batch.task_file import WHOLE, Shard, TaskFile

Script = Callable[[Attempt, Acted], Awaitable[object]]


class ScriptedPlaces:
    """One place for `most` attempts at once; an attempt is done once its script returns."""

    name = "here"

    def __init__(self, script: Script, most: int = 4) -> None:
        self._script = script
        self._room = anyio.Semaphore(most)

    async def take(self) -> Place:
        await self._room.acquire()
        return self

    def give_back(self, place: Place) -> None:
        self._room.release()

    async def run(self, attempt: Attempt, folder: Path, acted: Acted) -> TaskResult:
        await self._script(attempt, acted)
        return TaskResult(id=attempt.task.id, attempt=attempt.number, node=self.name, status="done", response="yes")

    @asynccontextmanager
    async def opened(self, first: Attempt) -> AsyncIterator[ScriptedPlaces]:
        yield self


def task_file(folder: Path, count: int, shard: Shard = WHOLE, prompt: str = "hello") -> TaskFile:
    """Return a file of tasks `t1` and so on."""
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps({"id": f"t{number + 1}", "prompt": prompt}) + "\n" for number in range(count)))
    return TaskFile.checked(path, shard)


async def run_all(batch: Batch, script: Script, most: int = 4) -> list[TaskResult]:
    """Run a batch to its end, and close it; return what it yielded."""
    try:
        return [result async for result in batch.results(ScriptedPlaces(script, most).opened)]
    finally:
        batch.close()


def kept(out: Path) -> list[TaskResult]:
    """Return the results in a folder."""
    return [TaskResult.model_validate_json(line) for line in (out / "results.jsonl").read_bytes().splitlines()]
