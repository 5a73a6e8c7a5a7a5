"""How long something takes in microseconds: once, or as a block that repeats it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.sampling import Block


async def timed(act: Callable[[], Awaitable[Any]]) -> float:
    """Return how long something takes that is awaited."""
    before = time.perf_counter_ns()
    await act()
    return (time.perf_counter_ns() - before) / 1000


def taken(act: Callable[[], Any]) -> float:
    """Return how long a call takes that is not."""
    before = time.perf_counter_ns()
    act()
    return (time.perf_counter_ns() - before) / 1000


def repeated(act: Callable[[], Awaitable[Any]], times: int) -> Block:
    """Return a block that awaits something so often, one after the other."""

    async def block() -> list[float]:
        return [await timed(act) for _ in range(times)]

    return block


def called(act: Callable[[], Any], times: int) -> Block:
    """Return a block that calls something so often."""

    async def block() -> list[float]:
        return [taken(act) for _ in range(times)]

    return block
