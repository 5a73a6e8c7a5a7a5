"""End what nothing has happened on for a time, by looking now and then at how many bytes it has carried."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_LOOKS: Final = 8  # within the time; an end is late by one of them at most


class IdleError(Exception):
    """Raised when nothing has happened for too long."""


@asynccontextmanager
async def idle_timeout(carried: Callable[[], int], seconds: float) -> AsyncIterator[None]:
    """Cancel what is done inside, once what `carried` returns has been the same for so many seconds.

    Raises:
        IdleError: It has.
    """
    loop = asyncio.get_running_loop()
    seen = carried()
    handle: asyncio.TimerHandle

    def look() -> None:
        nonlocal seen, handle
        now = carried()
        if now != seen and not timeout.expired():
            seen = now
            timeout.reschedule(loop.time() + seconds)
        handle = loop.call_later(seconds / _LOOKS, look)

    handle = loop.call_later(seconds / _LOOKS, look)
    try:
        async with asyncio.timeout(seconds) as timeout:
            yield
    except TimeoutError:
        if timeout.expired():
            raise IdleError from None
        raise
    finally:
        handle.cancel()
