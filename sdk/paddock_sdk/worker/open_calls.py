"""A worker's open calls and the requests it serves, and the outcomes of calls."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, NamedTuple


class CallOutcome(NamedTuple):
    """The outcome of a call, or one item of it."""

    value: Any
    error: BaseException | None = None
    is_item: bool = False

    def take(self) -> Any:
        """Return the value or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


Finish = Callable[[CallOutcome], None]


class PendingCall(NamedTuple):
    """A call that this process made: the receivers of its items and its answer, and where it was made."""

    finish: Finish
    context: contextvars.Context
    is_stream: bool


class ServedRequest:
    """A request of the host's that a task serves."""

    __slots__ = ("_credited", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self._credited: asyncio.Event | None = None

    async def wait_for_credit(self) -> None:
        """Return when the reader of the stream has room for more."""
        self._credited = self._credited or asyncio.Event()
        self._credited.clear()
        await self._credited.wait()

    def on_credit(self) -> None:
        if self._credited is not None:
            self._credited.set()


def settle(future: asyncio.Future[CallOutcome], outcome: CallOutcome) -> None:
    """Give an outcome to the awaiting caller, unless it no longer waits."""
    if not future.done():  # its caller may have been cancelled, without having reported it yet
        future.set_result(outcome)
