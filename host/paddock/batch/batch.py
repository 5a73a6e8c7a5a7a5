"""Run the tasks of a file, each to exactly one result, and go on after any end.

A task is claimed, run at a place, and its result kept, before its place gets another one. An attempt whose place was
lost runs again if that repeats nothing that others could see; a run that ended with attempts on the way is treated
as a place that was lost. `decisions.md` says what counts as seen.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from paddock.batch.ledger import Ledger, LedgerError
from paddock.batch.place import Attempt, NotBegunError, Place, PlaceLostError, Places, StaleAttemptError
from paddock.batch.result import TaskResult
from paddock.batch.task import OWN, Task
from paddock.batch.task_file import TaskFile, TaskFileError
from paddock.text import reason_of

Repeat = Literal["never", "if-nothing-acted", "always"]
"""Whether an attempt whose place was lost is made again."""

PlacesOf = Callable[[Attempt], AbstractAsyncContextManager[Places]]
"""Opens the places of a run; the attempt is the first one, at which they can be tried out."""

_TRIES: Final = 3
_RANDOM: Final = random.SystemRandom()


def _pause(tries: int) -> float:
    """Return some seconds, no two alike, so that attempts of one lost place do not come back at once."""
    return _RANDOM.uniform(0, 2.0**tries)


class Batch:
    """One run of a file's tasks, with its results in a folder; `close` releases them."""

    def __init__(
        self,
        tasks: TaskFile,
        out: Path,
        plan: str,
        *,
        repeat: Repeat = "if-nothing-acted",
        resumes: bool = False,
        pause: Callable[[int], float] = _pause,
    ) -> None:
        """Open the ledger, for the plan with a digest; blocks.

        Raises:
            LedgerError: it is of something else, or cannot be used.
        """
        self.tasks = tasks
        self.ledger = Ledger(out, tasks, plan, resumes=resumes)
        self._out = out
        self._repeat = repeat
        self._pause = pause
        self._is_stopped = False
        self._beginning: anyio.CancelScope | None = None

    def close(self) -> None:
        """Let another run have the folder."""
        self.ledger.close()

    def stop(self) -> None:
        """Begin no further task; those that run come to their ends."""
        self._is_stopped = True
        if self._beginning is not None:
            self._beginning.cancel()

    async def results(self, places: PlacesOf) -> AsyncGenerator[TaskResult]:
        """Run the tasks that have no result yet, and yield each result once it is kept, in the order of their ends.

        Leaving this early ends the sessions that run.

        Raises:
            PaddockError: the places cannot be opened, none is left, or the folder of results cannot be written to.
        """
        self._results, receive = anyio.create_memory_object_stream[TaskResult]()
        # A task of its own: no scope of it is open here while a result is yielded.
        running = asyncio.create_task(self._run(places))
        try:
            async for result in receive:
                yield result
            await running
        finally:
            running.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([running])
            receive.close()
            if not running.cancelled():
                running.exception()  # it is raised above, unless nobody waited for it

    async def _run(self, places: PlacesOf) -> None:
        waiting = (one for one in self.tasks.tasks() if not self.ledger.has_ended(one[0]))
        changed: TaskFileError | None = None
        async with self._results:
            first = await _next_of(waiting)
            if first is None or self._is_stopped:
                return
            line, task = first
            attempt = Attempt(task, self.ledger.of(line).number + 1, self.tasks.path.parent)
            try:
                async with places(attempt) as opened, anyio.create_task_group() as group:
                    with anyio.CancelScope() as self._beginning:
                        changed = await self._begin(chain([first], waiting), opened, group)
            except (OSError, BaseExceptionGroup) as error:
                raise self._reported(error) from error
        if changed is not None:
            raise changed

    async def _begin(
        self, waiting: Iterator[tuple[int, Task]], places: Places, group: TaskGroup
    ) -> TaskFileError | None:
        """Begin each task once there is room for it; return early if their file has changed."""
        try:
            while (following := await _next_of(waiting)) is not None:
                line, task = following
                lost = self._lost(line, task)
                if lost is None:
                    place = await places.take()
                    group.start_soon(self._to_its_end, line, task, place, places)
                else:
                    await self._end(line, lost)
        except TaskFileError as error:  # those that run come to their ends
            return error
        return None

    async def _to_its_end(self, line: int, task: Task, place: Place, places: Places) -> None:
        """Make attempts at a task, the first one at a place that was taken, until it has its result."""
        while True:
            try:
                result = await self._attempt(line, task, place) or self._lost(line, task)
                if result is not None:
                    await self._end(line, result)
                    return
            finally:
                places.give_back(place)
            await anyio.sleep(self._pause(self.ledger.of(line).tries))
            place = await places.take()

    async def _attempt(self, line: int, task: Task, place: Place) -> TaskResult | None:
        """Make one attempt at a task; return None if its place was lost."""
        folder = self._out / task.id
        try:
            number = await self.ledger.claim(line, task, place.name)
            await anyio.to_thread.run_sync(_empty, folder)
            attempt = Attempt(task, number, self.tasks.path.parent)
            result = await place.run(attempt, folder, partial(self.ledger.act, line, task, number))
        except NotBegunError:
            await self.ledger.release(line, task)
            return None
        except (PlaceLostError, StaleAttemptError):
            self.ledger.give_up(line)
            return None
        except BaseException:
            with anyio.CancelScope(shield=True), suppress(OSError):
                await self.ledger.release(line, task)
            raise
        acted = self.ledger.of(line).acted
        return result.model_copy(update={"acted": [*acted], "repeatable": not acted})

    async def _end(self, line: int, result: TaskResult) -> None:
        with anyio.CancelScope(shield=True):
            await self.ledger.end(line, result)
        await self._results.send(result)

    def _lost(self, line: int, task: Task) -> TaskResult | None:
        """Return the result of a task whose last attempt was lost, if it may not be made again."""
        one = self.ledger.of(line)
        if one.acted and self._repeat != "always":
            calls = ", ".join(f"`{act.tool}` of {act.module} in attempt {act.attempt}" for act in one.acted)
            why = f"its place was lost after a call that may have acted outside of its folder: {calls}"
        elif one.tries and self._repeat == "never":
            why = "its place was lost, and nothing is to be run again"
        elif one.tries >= _TRIES:
            why = f"its place was lost in each of {one.tries} attempts"
        else:
            return None
        return TaskResult(
            id=task.id,
            attempt=one.number,
            node=one.node,
            status="lost",
            error={"type": "LostError", "message": why},
            repeatable=not one.acted,
            acted=[*one.acted],
        )

    def _reported(self, error: BaseException) -> BaseException:
        """Return the error to report for one that ended the run."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, OSError):
            return error
        hint = "make room there; `--resume` goes on then"
        return LedgerError(self._out, f"cannot be written to: {reason_of(error)}", hint)


async def _next_of(waiting: Iterator[tuple[int, Task]]) -> tuple[int, Task] | None:
    return await anyio.to_thread.run_sync(next, waiting, None)


def _empty(folder: Path) -> None:
    """Have an empty folder, in place of what an earlier attempt left.

    Raises:
        LedgerError: something else is there.
    """
    with suppress(FileNotFoundError):
        if any(folder.iterdir()) and not (folder / OWN).is_dir():
            raise LedgerError(folder, "is there already, and is not of this run")
        shutil.rmtree(folder)
    folder.mkdir()
