"""How many examples a property is tried with: a third of what its test names, and all of them in `make test-all`."""

from __future__ import annotations

import os

_ALWAYS = 50


def examples(number: int) -> int:
    """Return how many of `number` examples this run tries; `number` itself where it is small."""
    return number if os.environ.get("PADDOCK_EVERY_EXAMPLE") else max(number // 3, min(number, _ALWAYS))
