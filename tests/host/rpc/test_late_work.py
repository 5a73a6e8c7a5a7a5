"""Work that comes when a session is over, as when a worker's connection is lost after it."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from paddock.rpc.router import Router


async def test_work_that_comes_after_the_session_is_left_undone() -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        done.append(name)

    values: Any = None
    async with asyncio.TaskGroup() as tasks:
        router = Router(values, tasks)
        router.spawn(work("in time"))
    late = work("late")
    router.spawn(late)
    assert inspect.getcoroutinestate(late) == inspect.CORO_CLOSED
    assert done == ["in time"]
