"""Have something done while a block runs, by a task that never outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

_T = TypeVar("_T")


@asynccontextmanager
async def background_task(doing: Coroutine[Any, Any, _T]) -> AsyncIterator[asyncio.Task[_T]]:
    """Run a coroutine as a task; when the block is left, it is cancelled, and has ended.

    An error of it is raised where the block ends without one, unless the block awaits the task itself. A caller who is
    cancelled is so: the wait for the task goes on, and the cancellation is raised after it.
    """
    task = asyncio.create_task(doing)
    try:
        yield task
    finally:
        task.cancel()
        await _ended(task)
    if not task.cancelled():
        task.result()


async def _ended(task: asyncio.Task[Any]) -> None:
    # Not by awaiting the task: its cancellation could not be told from that of who waits for it.
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if not task.cancelled():
        task.exception()  # known, should another error be on its way
    if cancelled is not None:
        raise cancelled
