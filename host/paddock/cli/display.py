"""Show the messages of hooks to the person at the terminal, each with its level and where it comes from."""

from __future__ import annotations

from typing import Literal

from .render import Screen


class ScreenDisplay:
    """A display system that writes to the screen."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str = "hook") -> None:
        """Show one message; what a module wrote is escaped, line by line."""
        for line in message.splitlines() or [""]:
            self._screen.message(level, source, line)
