"""Take the result of module code: a value or an awaitable, a cancellation, an exception of an unknown class.

The contract lets modules pass synchronous and asynchronous functions nearly everywhere. It awaits in the caller's task.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


async def settled(value: Any) -> Any:
    """Return the value, or its awaited result."""
    return await value if inspect.isawaitable(value) else value


class CancelWatch:
    """Knows whether the task it was made in has been cancelled since.

    One's own cancellation must propagate; a `CancelledError` that module code raised is the module's failure. Only the
    task's count of cancel requests distinguishes them.
    """

    __slots__ = ("_count", "_task")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._count = self._task.cancelling() if self._task is not None else 0

    @property
    def cancelled(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._count


def safe_exception_str(exc: BaseException) -> str:
    """Return the exception's text, or what it is made of if the text cannot be had, or its class."""
    for text_of in (str, repr):
        try:
            return text_of(exc)
        except Exception:  # noqa: S112 - `__str__` of a class we do not know
            continue
    return f"<{type(exc).__name__} without a readable message>"
