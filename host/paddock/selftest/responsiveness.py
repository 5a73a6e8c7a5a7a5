"""How long the running loop stood still while something else happened."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Final, Self

_PERIOD: Final = 0.005  # seconds between two looks at the clock


class Responsiveness:
    """Measures while it is entered; `lag` is the longest delay of a timer so far, in seconds."""

    def __init__(self) -> None:
        self.lag = 0.0

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._wait()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._timer.cancel()
        self._note()

    def _wait(self) -> None:
        self._due = time.monotonic() + _PERIOD
        self._timer = self._loop.call_later(_PERIOD, self._ring)

    def _ring(self) -> None:
        self._note()
        self._wait()

    def _note(self) -> None:
        self.lag = max(self.lag, time.monotonic() - self._due)
