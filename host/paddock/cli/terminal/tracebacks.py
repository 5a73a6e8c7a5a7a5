"""Collect the tracebacks of tools that raised, out of the lines that their modules print, for scripts.

A module may print such lines by itself, so a traceback is what the module says, and proves nothing. The latest
are kept, each up to a size.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from paddock_sdk.worker.calls.raised import DETAIL

_MAX_KEPT: Final = 50
_MAX_LINES: Final = 200  # of one; a worker sends fewer
_MAX_CHARACTERS: Final = 4000  # of one line
_START: Final = "Traceback (most recent call last):"
_CHAINED: Final = ("During handling of the above exception", "The above exception was the direct cause")


class Tracebacks:
    """The tracebacks of one session's tools, each with its module, in the order in which they began."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, deque[str]]] = deque(maxlen=_MAX_KEPT)
        self._open: dict[str, deque[str]] = {}

    def add(self, module: str, line: str) -> None:
        """Take a line that a module printed."""
        if not line.startswith(DETAIL):
            self._open.pop(module, None)
            return
        text = line.removeprefix(DETAIL)[:_MAX_CHARACTERS]
        lines = self._open.get(module)
        if lines is None or (text == _START and not lines[-1].startswith(_CHAINED)):
            lines = self._open[module] = deque(maxlen=_MAX_LINES)
            self._kept.append((module, lines))
        lines.append(text)

    def as_list(self) -> list[dict[str, object]]:
        """Return them for scripts."""
        return [{"module": module, "traceback": "\n".join(lines)} for module, lines in self._kept]
