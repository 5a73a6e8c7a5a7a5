"""Distinguish one's own cancellation from a `CancelledError` that module code raised.

The first must propagate, the second is the module's failure. Only the task's count of cancel requests distinguishes
them.
"""

from __future__ import annotations

import asyncio

__all__ = ["CancelWatch"]


class CancelWatch:
    """Knows whether the task it was made in has been cancelled since."""

    __slots__ = ("_count", "_task")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._count = self._task.cancelling() if self._task is not None else 0

    @property
    def cancelled(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._count
