"""Write the conversation, so that it never holds a tool call without an answer.

Providers refuse a conversation with an unanswered call, so one interrupted write would end the session. A write that
has begun is completed even when the turn is cancelled under it; `close()` answers the calls that are still open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from amplifier_core.message_models import ToolCall

from .messages import assistant_message, tool_message, well_formed

logger = logging.getLogger(__name__)


class Transcript:
    """The turn's additions to the context."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._last_write: asyncio.Task[None] | None = None
        self._calls: Sequence[ToolCall] = ()
        self._open: deque[ToolCall] = deque()

    async def add_prompt(self, prompt: str) -> None:
        """Add the prompt of a person, or of a goal in their place."""
        await self._complete(self._store({"role": "user", "content": prompt}))

    async def add_reply(self, response: Any, calls: Sequence[ToolCall]) -> None:
        """Add the model's reply; its calls are open until they are answered."""
        await self._complete(self._store_reply(response, calls))

    async def add_partial(self, text: str) -> None:
        """Add the shown part of a reply that was broken off; it calls no tools."""
        content = [{"type": "text", "text": text}]
        await self._complete(self._store({"role": "assistant", "content": content}))

    async def answer(self, outcomes: Sequence[str]) -> None:
        """Answer the open calls, in the order they were made."""
        for content in outcomes:
            await self._complete(self._store_answer(content))

    async def close(self, outcomes: Sequence[str | None], reason: str) -> None:
        """Answer every open call: with its outcome if it has one to take, else with the reason.

        Never raises: the turn is ending with an error of its own.
        """
        if self._last_write is not None:
            with contextlib.suppress(Exception):  # already raised to the caller of the write
                await self._last_write
        try:
            while self._open:
                index = len(self._calls) - len(self._open)
                known = outcomes[index] if index < len(outcomes) else None
                if known is not None:
                    with contextlib.suppress(Exception):  # there may be no room for it
                        await self._store_answer(known)
                        continue
                await self._store_answer(reason)
        except Exception:
            logger.warning("could not answer the conversation's open tool calls", exc_info=True)

    async def _store(self, message: dict[str, Any]) -> None:
        await self._context.add_message(well_formed(message))

    async def _store_reply(self, response: Any, calls: Sequence[ToolCall]) -> None:
        await self._store(assistant_message(response, calls))
        self._calls, self._open = calls, deque(calls)

    async def _store_answer(self, content: str) -> None:
        await self._store(tool_message(self._open[0], content))
        self._open.popleft()

    async def _complete(self, write: Coroutine[Any, Any, None]) -> None:
        self._last_write = asyncio.get_running_loop().create_task(write)
        await asyncio.shield(self._last_write)
