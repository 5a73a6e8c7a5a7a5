"""Wait for what has to be done to its end, however often the task that waits is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def run_undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` comes to, which runs in a task of its own; a cancellation of the caller is raised after it.

    A shielded scope alone holds off the cancellations of `anyio`, and none by `Task.cancel`. `work` bounds its own
    time.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    return task.result()
