"""Work that comes when a session is over, as when a worker's connection is lost after it."""

from __future__ import annotations

import asyncio
import inspect

from paddock.rpc.tasks import SessionTasks


async def test_work_that_comes_after_the_session_is_left_undone() -> None:
    done: list[str] = []
    has_run = asyncio.Event()

    async def work(name: str) -> None:
        done.append(name)
        has_run.set()

    async with SessionTasks() as tasks:
        tasks.spawn(work("in time"))
        await asyncio.wait_for(has_run.wait(), 60)
    late = work("late")
    tasks.spawn(late)
    assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED
    assert done == ["in time"]
