"""The event loop of a worker, which polls its file descriptors less often than asyncio does.

A frame starts or wakes a task, which runs in the loop's next turn. Before each turn asyncio polls the kernel again,
which costs about as much as one step of a short handler. After each poll this loop skips the next one if that would not
wait, so a busy worker polls in every second turn. Waiting polls are never skipped.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Final

_Ready = list[tuple[selectors.SelectorKey, int]]

_NOTHING: Final[_Ready] = []


class PatientSelector(selectors.DefaultSelector):
    """Skips a poll that would not wait if the call before it polled; a skipped poll returns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._has_asked = False

    def select(self, timeout: float | None = None) -> _Ready:
        """Return the ready descriptors; of two calls in a row that do not wait, at least one polls."""
        if self._has_asked and timeout is not None and timeout <= 0:
            self._has_asked = False
            return _NOTHING
        self._has_asked = True
        return super().select(timeout)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop for a worker, set as the current loop of this thread."""
    loop = asyncio.SelectorEventLoop(PatientSelector())
    asyncio.set_event_loop(loop)
    return loop
