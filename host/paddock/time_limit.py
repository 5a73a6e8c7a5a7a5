"""Time limits in which the time does not count in which this process did not run.

A host that is stopped, by a signal or by an application that blocks its loop, reads nothing meanwhile, so an answer
that came in time would look late. So that time is added to each deadline.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from anyio import CancelScope

_LOOK_SECONDS: Final = 0.05
_STOPPED_SECONDS: Final = 0.5  # less is the delay of a busy machine


class Looks:
    """Calls `look` every 50 ms for as long as it returns true.

    It gets the time of the look before, in loop time: all that was sent by then has been offered to be read since. And
    it gets the seconds in which the process did not run since. Processor time that the loop's own thread took does not
    belong to them: a worker that keeps the host busy gains none.
    """

    def __init__(self, look: Callable[[float, float], bool]) -> None:
        self._look = look
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._began = 0.0  # the wait for the next look
        self._used = 0.0  # processor time until then

    def begin(self) -> None:
        """Look from now on, unless that is so already."""
        if self._timer is None:
            self._began, self._used = self._loop.time(), time.thread_time()
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._on_time)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_time(self) -> None:
        self._timer = None
        late = self._loop.time() - self._began - _LOOK_SECONDS - (time.thread_time() - self._used)
        if self._look(self._began, late if late > _STOPPED_SECONDS else 0.0):
            self.begin()


@contextmanager
def while_running(limit: AbstractContextManager[CancelScope]) -> Iterator[CancelScope]:
    """Enter a limit of anyio's, and move its deadline by the time in which the process did not run."""

    def look(before: float, stopped: float) -> bool:
        if stopped:
            scope.deadline += stopped
        return True

    with limit as scope:
        looks = Looks(look)
        looks.begin()
        try:
            yield scope
        finally:
            looks.stop()
