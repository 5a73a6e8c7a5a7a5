"""On which processors a measurement runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def use_one_core() -> None:
    """Keep this process and those it starts on one core: where the scheduler puts two decides more than any code."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@contextmanager
def every_core() -> Iterator[None]:
    """Use every core meanwhile, for what is about work side by side."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
