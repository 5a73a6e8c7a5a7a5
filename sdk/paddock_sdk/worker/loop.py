"""The event loop of a worker: one that can take a task's first step at once.

Most of what a module is asked ends without ever waiting, and is then answered before the loop
turns again. From Python 3.12 on asyncio itself can start a task so; before, this loop catches
the step that a new task asks it to make soon. Tasks are ordinary in every other way.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable, Coroutine
from typing import Any


class WorkerLoop(asyncio.SelectorEventLoop):
    """A loop with `start`."""

    def __init__(self) -> None:
        super().__init__()
        self._is_catching = False
        self._caught: tuple[Callable[..., object], contextvars.Context | None] | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Return a task that has taken its first step, or is about to when another is in the middle of one."""
        if asyncio.current_task(self) is not None:
            return self.create_task(work)
        self._is_catching = True
        task = asyncio.Task(work, loop=self)
        step, context = self._caught
        context.run(step)
        return task

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._is_catching:
            self._is_catching = False
            self._caught = callback, context
            return None
        return super().call_soon(callback, *args, context=context)
