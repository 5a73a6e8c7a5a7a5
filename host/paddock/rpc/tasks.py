"""The tasks of one session, which run beside the calls that it serves.

A failed task does not end the session, and no task outlives it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from contextvars import Context
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

_log = logging.getLogger(__name__)


class SessionTasks:
    """A group of tasks; an exception of one is logged. Leaving the group cancels them and waits for their end."""

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._running:
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        """Run `work`, until the session ends.

        Raises:
            RuntimeError: it has ended; `work` is closed.
        """
        contained = _contained(work)
        try:
            task = self._group.create_task(contained)
        except RuntimeError:
            contained.close()
            work.close()
            raise
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def beside(self, work: Coroutine[Any, Any, T], context: Context) -> asyncio.Task[T]:
        """Run `work`, which must not raise; at the end it is waited for instead of being cancelled."""
        return self._group.create_task(work, context=context)

    def spawn(self, work: Coroutine[Any, Any, object]) -> None:
        """Run `work`, which no one waits for; it is left undone where the session has ended."""
        try:
            self.start(work)
        except RuntimeError:
            pass  # as when a connection is lost after that


async def _contained(work: Coroutine[Any, Any, object]) -> None:
    try:
        await work
    except Exception:  # a defect of the host; it must not end the session, and with it the application's task
        _log.exception("a task of the session failed")
