"""What `make test` leaves out and `make test-all` does: most of a property's examples, and tests that repeat one."""

from __future__ import annotations

import os
from typing import Any, Final

import pytest

IN_FULL: Final = bool(os.environ.get("PADDOCK_EXHAUSTIVE"))

_ALWAYS = 25


def examples(number: int) -> int:
    """Return how many of `number` examples this run tries; `number` itself where it is small."""
    return number if IN_FULL else max(number // 5, min(number, _ALWAYS))


def repeating(*rows: Any) -> list[Any]:
    """Return rows of parameters that repeat others through the same code, which only `make test-all` tries."""
    return [pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.exhaustive) for row in rows]
