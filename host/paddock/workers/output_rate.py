"""Limit how much of a process's output is shown: so much at once, and so much a second after that.

Output beyond the limit is counted in lines and bytes; one line a second at most reports the count.
"""

from __future__ import annotations

import time
from typing import Final

from paddock.plan.units import size_text

_LINE_BYTES: Final = 64  # that a line counts for besides its own: handing it on takes as long


class OutputRate:
    """A bucket of `at_once` bytes that gains `per_second`."""

    def __init__(self, per_second: int, at_once: int) -> None:
        self.lines = 0  # left out so far
        self.bytes = 0
        self._per_second = per_second
        self._at_once = at_once
        self._left = float(at_once)
        self._since = time.monotonic()
        self._told = (0, 0)
        self._told_at = 0.0

    def admits(self, data: bytes) -> bool:
        """Whether what was printed is to be handed on."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._since) * self._per_second, self._at_once)
        self._since = now
        size = len(data) + _LINE_BYTES * data.count(b"\n")
        if size > self._left:
            return False
        self._left -= size
        return True

    def leave_out(self, data: bytes) -> None:
        """Count what is not handed on."""
        self.bytes += len(data)
        self.lines += data.count(b"\n")

    def summary(self, *, is_last: bool) -> str:
        """Return a line that says how much was left out since the last such line, at most one a second but the last.

        It is empty if nothing was.
        """
        now = time.monotonic()
        lines, size = self.lines - self._told[0], self.bytes - self._told[1]
        if not size or not (is_last or now - self._told_at >= 1.0):
            return ""
        self._told, self._told_at = (self.lines, self.bytes), now
        return self._said(lines, size)

    @property
    def total(self) -> str:
        """A line that says how much was left out in all, none if nothing was."""
        return self._said(self.lines, self.bytes) if self.bytes else ""

    def _said(self, lines: int, size: int) -> str:
        return (
            f"[paddock: {lines} lines, {size_text(size)}, were left out; "
            f"a module may print {size_text(self._per_second)} a second]"
        )
