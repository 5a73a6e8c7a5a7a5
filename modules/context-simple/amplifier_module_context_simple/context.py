"""Hold a session's conversation in memory, and show the model as much of it as fits.

What is stored never changes but by `add_message`, `set_messages` and `clear`: compaction makes a view for one request.
What callers get are copies. Nothing is written anywhere; the conversation ends with the process.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from amplifier_core import events

from .compaction import View, compacted
from .layout import Message, from_hook, pieces_of
from .settings import Settings
from .tokens import total

logger = logging.getLogger(__name__)

PromptFactory = Callable[[], Awaitable[str]]


class SimpleContextManager:
    """The context protocol over a list of messages."""

    def __init__(self, settings: Settings | None = None, *, hooks: Any | None = None) -> None:
        self._settings = settings or Settings()
        self._hooks = hooks
        self._prompt_factory: PromptFactory | None = None
        self._messages: list[dict[str, Any]] = []

    async def add_message(self, message: Mapping[str, Any]) -> None:
        """Append a message, as it is.

        Raises:
            ValueError: it is not a mapping with a `role`.
        """
        self._messages.append(_stored(message))

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return the whole conversation, never compacted."""
        return copy.deepcopy(self._messages)

    async def set_messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Replace the conversation, as on resuming a session.

        Raises:
            ValueError: an entry is not a mapping with a `role`; nothing is replaced then.
        """
        self._messages = [_stored(message) for message in messages]

    async def clear(self) -> None:
        """Forget the conversation; the system prompt factory stays."""
        self._messages = []

    async def set_system_prompt_factory(self, factory: PromptFactory | None) -> None:
        """Have the system prompt made anew for each request, in place of the stored one; None ends that."""
        self._prompt_factory = factory

    async def should_compact(self) -> bool:
        """Return False: loops of the older protocol ask this, and what is stored never needs compacting."""
        return False

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the conversation ready for a request, reduced if it would fill the budget, counted in tokens.

        Results stand directly after the reply that asked for them. An exception of the prompt factory passes: a
        request without its instructions is worse than none.
        """
        prompt = await self._prompt_factory() if self._prompt_factory is not None else None
        messages = _with_system_prompt(self._messages, prompt) if prompt else list(self._messages)
        budget = self._budget(token_budget, provider)
        size = total(messages)
        if size > budget * self._settings.compaction_threshold:
            view = await self._compact(messages, size, budget)
            return copy.deepcopy(view.messages)
        return copy.deepcopy([message for piece in pieces_of(messages) for message in piece.messages])

    async def _compact(self, messages: list[Message], size: int, budget: int) -> View:
        about = {"message_count": len(messages), "token_count": size, "budget": budget}
        await self._emit(events.CONTEXT_PRE_COMPACT, about)
        view = compacted(
            messages,
            target=int(budget * self._settings.compaction_target),
            limit=budget,
            keep_turns=self._settings.keep_recent_turns,
            max_chars=self._settings.tool_result_max_chars,
        )
        if view.tokens > budget:
            logger.warning(
                "context-simple: what must be shown takes about %d tokens and the budget is %d", view.tokens, budget
            )
        result = {
            "message_count": len(view.messages),
            "token_count": view.tokens,
            "budget": budget,
            "removed_messages": view.removed_messages,
            "removed_tokens": size - view.tokens,
            "shortened_results": view.shortened_results,
        }
        await self._emit(events.CONTEXT_POST_COMPACT, result)
        return view

    def _budget(self, token_budget: int | None, provider: Any | None) -> int:
        """Return what the caller allows, else what the provider's window leaves, else the configured size."""
        if token_budget is not None:
            return token_budget
        window, output = _sizes(provider)
        left = window - output - self._settings.safety_margin
        return left if window > 0 and left > 0 else self._settings.max_tokens

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, data)


def _stored(message: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(message, Mapping) or not message.get("role"):
        raise ValueError(f"context-simple: a message must be a mapping with a `role`, not {message!r:.200}")
    return copy.deepcopy(dict(message))


def _with_system_prompt(messages: list[dict[str, Any]], prompt: str) -> list[Message]:
    """Return the conversation under this prompt instead of the system messages that open it; hooks' ones stay."""
    start = next((index for index, message in enumerate(messages) if message.get("role") != "system"), len(messages))
    kept = [message for message in messages[:start] if from_hook(message)]
    return [{"role": "system", "content": prompt}, *kept, *messages[start:]]


def _sizes(provider: Any | None) -> tuple[int, int]:
    """Return the provider's context window and largest output, zeros where it does not say."""
    if provider is None:
        return 0, 0
    try:
        defaults = provider.get_info().defaults
        window, output = defaults.get("context_window"), defaults.get("max_output_tokens")
    except Exception:  # providers without get_info, or with one that fails, are common enough
        logger.debug("context-simple: the provider does not tell its sizes", exc_info=True)
        return 0, 0
    if not isinstance(window, int) or not isinstance(output, int):
        return 0, 0
    return window, output
