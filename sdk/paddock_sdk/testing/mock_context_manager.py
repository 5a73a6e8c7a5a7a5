"""A conversation that is a list.

Every method is an `AsyncMock`. It never compacts, `clear` leaves the list alone, and there is no `set_messages`:
a test changes `messages` itself.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

__all__ = ["MockContextManager"]


class MockContextManager:
    """A context manager for testing whatever keeps a conversation."""

    def __init__(self, messages: list[dict[str, Any]] | None = None) -> None:
        self.messages: list[dict[str, Any]] = [] if messages is None else messages
        self.add_message = AsyncMock(side_effect=self._add_message)
        self.get_messages = AsyncMock(side_effect=self._get_messages)
        self.get_messages_for_request = AsyncMock(side_effect=self._get_messages_for_request)
        self.clear = AsyncMock(return_value=None)
        self._should_compact = AsyncMock(return_value=False)
        self._compact_internal = AsyncMock(return_value=None)

    async def _add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def _get_messages(self) -> list[dict[str, Any]]:
        return self.messages

    async def _get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        return list(self.messages)
