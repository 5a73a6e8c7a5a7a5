"""Waiting for a condition that no event announces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["wait_for"]

_POLL_INTERVAL = 0.01  # seconds


async def wait_for(condition: Callable[[], bool], timeout: float = 1.0) -> bool:
    """Return True once the condition holds, False when it does not within `timeout` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(_POLL_INTERVAL)
    return True
