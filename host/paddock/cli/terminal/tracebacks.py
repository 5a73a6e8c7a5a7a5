"""Collect the tracebacks of tools that raised, out of the lines that their modules print, for scripts.

A module may print such lines by itself, so a traceback is what the module says, and proves nothing. Of each module the
latest are kept, each up to a size.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from paddock_sdk.worker.calls.raised import DETAIL, MAX_LINE, cut

_MAX_KEPT: Final = 10  # of one module
_MAX_LINES: Final = 200  # of one; a worker sends fewer
_START: Final = "Traceback (most recent call last):"
_CHAINED: Final = ("During handling of the above exception", "The above exception was the direct cause")


class Tracebacks:
    """The tracebacks of one session's tools, each with its module, in the order in which they began."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, deque[str]]] = []
        self._open: dict[str, deque[str]] = {}

    def add(self, module: str, line: str) -> None:
        """Take a line that a module printed."""
        if not line.startswith(DETAIL):
            self._open.pop(module, None)
            return
        text = cut(line.removeprefix(DETAIL), MAX_LINE)
        lines = self._open.get(module)
        if lines is None or (text == _START and not lines[-1].startswith(_CHAINED)):
            lines = self._open[module] = deque(maxlen=_MAX_LINES)
            self._kept.append((module, lines))
            of_module = [one for one in self._kept if one[0] == module]
            if len(of_module) > _MAX_KEPT:
                self._kept.remove(of_module[0])
        lines.append(text)

    def as_list(self) -> list[dict[str, object]]:
        """Return them for scripts."""
        return [{"module": module, "traceback": "\n".join(lines)} for module, lines in self._kept]
