"""What waits to be drawn while something else has the screen: a bounded number of drawings, in their order.

Those of modules and those of the host have limits of their own, so that a module's flood costs no warning of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MAX_LINES: Final = 200  # of either sort
_MAX_CHARACTERS: Final = 64 * 1024


class DrawingBacklog:
    """Keeps the first of what is added to it, and counts the rest."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []
        self._lines = {True: 0, False: 0}
        self._characters = {True: 0, False: 0}
        self._dropped = {True: 0, False: 0}

    def add(self, draw: Callable[[], None], characters: int, *, is_ours: bool) -> None:
        """Keep `draw`, which draws that many characters, for later, or count it as dropped."""
        if self._lines[is_ours] >= _MAX_LINES or self._characters[is_ours] + characters > _MAX_CHARACTERS:
            self._dropped[is_ours] += 1
            return
        self._lines[is_ours] += 1
        self._characters[is_ours] += characters
        self._waiting.append(draw)

    def release(self, draw: Callable[[Callable[[], None]], None], tell: Callable[[str], None]) -> None:
        """Hand what was kept to `draw`, one by one, and `tell` how much was not kept."""
        for waiting in self._waiting:
            draw(waiting)
        for is_ours, whose in ((False, "of modules"), (True, "of Paddock")):
            if self._dropped[is_ours]:
                tell(f"{self._dropped[is_ours]} lines {whose} came while a question stood, and are not shown")
