"""Hold a session's conversation in memory, and show the model as much of it as fits.

Only `add_message`, `set_messages` and `clear` change the stored messages: compaction makes a view for one request.
Callers get copies. Nothing is written anywhere; the conversation ends with the process.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from amplifier_core import events

from .compaction import View, compacted, whole
from .entry import Entry, EntryFactory, Message, from_hook
from .layout import is_complete, pieces_of
from .settings import Settings
from .tokens import TokenCounter

logger = logging.getLogger(__name__)

EVENTS = (events.CONTEXT_PRE_COMPACT, events.CONTEXT_POST_COMPACT, events.CONTEXT_COMPACTION)
STRATEGY = "shorten_old_results_then_drop_old_exchanges"

_UNCHANGING = frozenset({str, int, float, bool, type(None)})  # asked first: a message is copied for each request

PromptFactory = Callable[[], Awaitable[str]]


class SimpleContextManager:
    """The context protocol over a list of messages.

    Raises:
        ValueError: the settings name a tokenizer that is not at hand.
    """

    def __init__(self, settings: Settings | None = None, *, hooks: Any | None = None) -> None:
        self._settings = settings or Settings()
        self._hooks = hooks
        self._counter = TokenCounter(self._settings.tokenizer)
        self._factory = EntryFactory(self._counter, self._settings.tool_result_max_chars)
        self._prompt_factory: PromptFactory | None = None
        self._messages: list[Message] = []
        self._known: list[Entry] = []  # the facts about the first of them

    async def add_message(self, message: Mapping[str, Any]) -> None:
        """Append a message, as it is.

        Raises:
            ValueError: it is not a mapping with a `role`.
        """
        stored = self._stored(message)
        self._entries.append(self._factory.entry(stored))  # which refuses what no request could show
        self._messages.append(stored)

    async def get_messages(self) -> list[dict[str, Any]]:
        """Return the whole conversation, never compacted."""
        return [copied(message) for message in self._messages]

    async def set_messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Replace the conversation, as on resuming a session.

        Raises:
            ValueError: an entry is not a mapping with a `role`; nothing is replaced then.
        """
        self._messages, self._known = [self._stored(message) for message in messages], []

    async def clear(self) -> None:
        """Forget the conversation; the system prompt factory stays."""
        self._messages, self._known = [], []

    async def set_system_prompt_factory(self, factory: PromptFactory | None) -> None:
        """Set a function that makes the system prompt for each request, replacing the stored one; None removes it."""
        self._prompt_factory = factory

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        """Return the conversation ready for a request, reduced if it would fill the budget, counted in tokens.

        Results stand directly after the reply that asked for them, and every call has one. An exception of the prompt
        factory propagates: a request without its instructions is worse than none.
        """
        prompt = await self._prompt_factory() if self._prompt_factory is not None else None
        entries = self._entries
        if prompt:  # it takes the place of the system messages that open the conversation; hooks' ones stay
            roles = (index for index, entry in enumerate(entries) if entry.message.get("role") != "system")
            start = next(roles, len(entries))
            kept = [entry for entry in entries[:start] if from_hook(entry.message)]
            entries = [self._factory.entry({"role": "system", "content": prompt}), *kept, *entries[start:]]
        _, view = await self._views(entries, self._budget(token_budget, provider))
        return [copied(message) for message in view.messages]

    # --- the older protocol, whose loops ask for compaction themselves

    async def get_token_count(self) -> int:
        """Return the size of the whole conversation in tokens."""
        return sum(entry.tokens for entry in self._entries)

    async def should_compact(self) -> bool:
        """Return False: each request is reduced when it is made, and the stored messages never need it."""
        return False

    async def compact(self) -> dict[str, Any]:
        """Return the result of reducing a request of the configured size; the stored messages stay complete."""
        budget = self._settings.max_tokens
        before, view = await self._views(self._entries, budget)
        return {**self._before(before, budget), **self._after(before, view, budget)}

    # --- how

    @property
    def _entries(self) -> list[Entry]:
        """The messages with the facts about each; those of messages that were set are found when they are needed."""
        self._known += map(self._factory.entry, self._messages[len(self._known) :])
        return self._known

    def _stored(self, message: Mapping[str, Any]) -> Message:
        if not isinstance(message, Mapping) or not message.get("role"):
            raise ValueError(
                f"{self._settings.module}: a message must be a mapping with a `role`, not {message!r:.200}"
            )
        stored: Message = copied(dict(message))
        return stored

    async def _views(self, entries: list[Entry], budget: int) -> tuple[View, View]:
        """Return the conversation in order, whole and as a request shows it, which is the same while there is room."""
        room = budget * self._settings.compaction_threshold
        if is_complete(entries) and (tokens := sum([entry.tokens for entry in entries])) <= room:
            view = View([entry.message for entry in entries], tokens)
            return view, view
        pieces = pieces_of(entries, self._factory)
        before = whole(pieces)
        if before.tokens <= room:
            return before, before
        about = self._before(before, budget)
        counts = {"message_count": about["before_messages"], "token_count": about["before_tokens"]}
        await self._emit(events.CONTEXT_PRE_COMPACT, about | counts)
        view = compacted(
            pieces,
            target=int(budget * self._settings.compaction_target),
            limit=budget,
            keep_turns=self._settings.keep_recent_turns,
            max_chars=self._settings.tool_result_max_chars,
            tokens_of=self._counter.tokens_of,
        )
        if view.tokens > budget:
            logger.warning(
                "%s: what must be shown takes about %d tokens and the budget is %d",
                self._settings.module, view.tokens, budget,
            )  # fmt: skip
        outcome = self._after(before, view, budget)
        counts = {"message_count": outcome["after_messages"], "token_count": outcome["after_tokens"]}
        await self._emit(events.CONTEXT_POST_COMPACT, outcome | counts)
        await self._emit(events.CONTEXT_COMPACTION, about | outcome)
        return before, view

    def _before(self, before: View, budget: int) -> dict[str, Any]:
        return {
            "before_tokens": before.tokens,
            "before_messages": len(before.messages),
            "strategy": STRATEGY,
            "budget": budget,
            "tokens_by": self._counter.method,
        }

    def _after(self, before: View, view: View, budget: int) -> dict[str, Any]:
        return {
            "after_tokens": view.tokens,
            "after_messages": len(view.messages),
            "removed_tokens": before.tokens - view.tokens,
            "removed_messages": len(before.messages) - len(view.messages),
            "shortened_results": view.shortened_results,
            "strategy": STRATEGY,
            "budget": budget,
            "tokens_by": self._counter.method,
        }

    def _budget(self, token_budget: int | None, provider: Any | None) -> int:
        """Return the caller's budget, else the rest of the provider's window, else the configured size."""
        if token_budget is not None:
            return token_budget
        window, output = _sizes(provider)
        left = window - output - self._settings.safety_margin
        return left if window > 0 and left > 0 else self._settings.max_tokens

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, data)


def copied(value: Any) -> Any:
    """Return a copy that shares nothing with a message that can change; many times faster than `deepcopy`."""
    kind = type(value)
    if kind is dict:
        whole: dict[Any, Any] = value.copy()
        for key, item in value.items():
            if type(item) not in _UNCHANGING:
                whole[key] = copied(item)
        return whole
    if kind is list:
        return [item if type(item) in _UNCHANGING else copied(item) for item in value]
    return value if isinstance(value, str | int | float | None) else copy.deepcopy(value)


def _sizes(provider: Any | None) -> tuple[int, int]:
    """Return the provider's context window and largest output, zeros if it does not give them."""
    if provider is None:
        return 0, 0
    try:
        defaults = provider.get_info().defaults
        window, output = defaults.get("context_window"), defaults.get("max_output_tokens")
    except Exception:  # providers without get_info, or with one that fails, are common enough
        logger.debug("the provider does not give its sizes", exc_info=True)
        return 0, 0
    if not isinstance(window, int) or not isinstance(output, int):
        return 0, 0
    return window, output
