"""How the kernel asks a person for permission, and shows a message to one.

The kernel calls both by position. It reads the chosen option from the answer; a system that gets no answer in time
raises instead of guessing. This differs from the `ApprovalProvider` that approval hooks ask.
"""

from __future__ import annotations

from typing import Literal, Protocol

__all__ = ["ApprovalSystem", "ApprovalTimeoutError"]


class ApprovalTimeoutError(Exception):
    """Raised when no person answered in time."""


class ApprovalSystem(Protocol):
    """Asks a person to choose one of several options."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the chosen option; `timeout` is seconds.

        Raises:
            ApprovalTimeoutError: no person answered in time; the caller then acts on `default`.
        """
        ...


class DisplaySystem(Protocol):
    """Shows messages to a person, by a plain call that neither waits nor answers."""

    def show_message(self, message: str, level: Literal["info", "warning", "error"], source: str = "hook") -> None:
        """Show one message with its origin."""
        ...
