"""On which processors a measurement runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


def use_one_core() -> None:
    """Keep this process and those it starts on one core: where the scheduler puts two decides more than any code."""
    _use({max(os.sched_getaffinity(0))})


@contextmanager
def every_core() -> Iterator[None]:
    """Use every core meanwhile, for what is about work side by side."""
    before = os.sched_getaffinity(0)
    _use(range(os.cpu_count() or 1))
    try:
        yield
    finally:
        _use(before)


def _use(cores: Iterable[int]) -> None:
    """Move all threads of this process: a pool keeps its threads, and a process runs where the thread started it."""
    chosen = set(cores)
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), chosen)
