"""How the kernel shows a message to a person: a plain call, by position, that neither waits nor answers."""

from __future__ import annotations

from typing import Literal, Protocol

__all__ = ["DisplaySystem"]


class DisplaySystem(Protocol):
    """Shows messages to a person."""

    def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str = "hook") -> None:
        """Show one message with its origin."""
        ...
