"""Show the messages of hooks to the person at the terminal, each with its level and its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from paddock.cli.terminal.render import Screen

_MAX_LINES: Final = 200  # of one message; a module may send another
_MAX_CHARACTERS: Final = 1 << 20


class ScreenDisplay:
    """A display system that writes to the screen, each time after `before`."""

    def __init__(self, screen: Screen, before: Callable[[], None] = lambda: None) -> None:
        self._screen = screen
        self._before = before

    def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str = "hook") -> None:
        """Show one message, line by line, with its secrets masked, up to the length that a person reads."""
        self._before()
        # Masked as a whole: a secret may have lines of its own.
        lines = self._screen.mask(message[:_MAX_CHARACTERS]).splitlines() or [""]
        for line in lines[:_MAX_LINES]:
            self._screen.message(level, source, line)
        if len(message) > _MAX_CHARACTERS or len(lines) > _MAX_LINES:
            self._screen.message(level, source, "… the rest of this message is not shown")
