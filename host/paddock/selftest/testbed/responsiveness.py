"""Measure how long the running loop stood still while something else happened."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final, Self

_PERIOD: Final = 0.005  # seconds between two readings of the clock
_WAITED: Final = "/proc/thread-self/schedstat"  # nanoseconds it ran, and waited for a processor; number of turns


class Responsiveness:
    """Measures while it is entered; `lag` is the longest delay of a timer so far, in seconds.

    Time in which the thread was ready but had no processor is left out, where the kernel counts it: that is the delay
    of a busy machine.
    """

    def __init__(self) -> None:
        self.lag = 0.0

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        try:
            self._counter: int | None = os.open(_WAITED, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # a kernel that does not count it
            self._counter = None
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._note()
        if self._counter is not None:
            os.close(self._counter)

    def _wait(self) -> None:
        self._due = self._now() + _PERIOD
        self._timer = self._loop.call_later(_PERIOD, self._ring)

    def _ring(self) -> None:
        self._note()
        self._wait()

    def _note(self) -> None:
        self.lag = max(self.lag, self._now() - self._due)

    def _now(self) -> float:
        """Return the time, without that in which this thread waited for a processor."""
        waited = 0 if self._counter is None else int(os.pread(self._counter, 128, 0).split()[1])
        return time.monotonic() - waited / 1e9
