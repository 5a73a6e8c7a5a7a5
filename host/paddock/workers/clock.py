"""The time, as something that tests can put in place of it."""

from __future__ import annotations

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """A steady clock that can be waited on."""

    def now(self) -> float:
        """Return the time in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return that much later."""
        ...


class SystemClock:
    """The machine's own monotonic clock."""

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return that much later."""
        await anyio.sleep(seconds)
