"""What `make test` leaves out and `make test-all` does: most of a property's examples, and tests that repeat one."""

from __future__ import annotations

import os
from typing import Final

IN_FULL: Final = bool(os.environ.get("PADDOCK_EXHAUSTIVE"))

_ALWAYS = 50


def examples(number: int) -> int:
    """Return how many of `number` examples this run tries; `number` itself where it is small."""
    return number if IN_FULL else max(number // 3, min(number, _ALWAYS))
