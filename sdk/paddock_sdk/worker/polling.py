"""A worker's loop, which asks the kernel what came in less often than asyncio does by itself.

A frame that came in starts a task or wakes one up, which runs in the loop's next turn. Before that turn asyncio asks
the kernel once more whether anything has come in, which costs about as much as the step of a short handler. Here the
first such question after a real one is left out, so that everything else is looked at in every second turn.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Final

_Ready = list[tuple[selectors.SelectorKey, int]]

_NOTHING: Final[_Ready] = []


class PatientSelector(selectors.DefaultSelector):
    """Answers a question that is not to be waited for with nothing, if it was really asked just before."""

    def __init__(self) -> None:
        super().__init__()
        self._has_asked = False

    def select(self, timeout: float | None = None) -> _Ready:
        """Return what is ready, at the latest with the second call that does not wait."""
        if self._has_asked and timeout is not None and timeout <= 0:
            self._has_asked = False
            return _NOTHING
        self._has_asked = True
        return super().select(timeout)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of a worker, as the one that this thread's code finds."""
    loop = asyncio.SelectorEventLoop(PatientSelector())
    asyncio.set_event_loop(loop)
    return loop
