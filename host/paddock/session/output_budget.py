"""Count what a module prints during a call.

Several calls may run at once and output does not say whose it is: what is counted is what came since the oldest of
those that run began. Between calls nothing is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


class OutputBudget:
    """How much a module may print during one call; `calls` are those that run, the oldest first.

    `on_spent` is called, once, with what was printed when that is more than `limit` bytes.
    """

    def __init__(self, limit: int, calls: Mapping[int, object], on_spent: Callable[[int], None]) -> None:
        self._limit = limit
        self._calls = calls
        self._on_spent = on_spent
        self._oldest: int | None = None
        self._printed = 0
        self._is_spent = False

    def note(self, size: int) -> None:
        """Take note that so many bytes were printed."""
        oldest = next(iter(self._calls), None)
        if oldest is None or self._is_spent:
            return
        if oldest != self._oldest:
            self._oldest, self._printed = oldest, 0
        self._printed += size
        if self._printed > self._limit:
            self._is_spent = True
            self._on_spent(self._printed)
