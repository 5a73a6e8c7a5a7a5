"""The facts about a stored message, computed once, so that no request has to compute them again.

Tool calls come in two shapes, in `tool_calls` or as blocks; results have the role `tool` or `function` and name their
call in `tool_call_id` or in blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .blocks import mappings_in, shortened
from .tokens import CALL_BLOCKS, TokenCounter

Message = dict[str, Any]

INTERRUPTED = "Error: the turn was interrupted before this tool call was answered"

_RESULT_ROLES = ("tool", "function")
_RESULT_KEYS = ("tool_call_id", "tool_use_id")


class Entry(NamedTuple):
    """A stored message; sizes are in tokens, `short_tokens` with the tools' results in it shortened."""

    message: Message
    tokens: int
    short_tokens: int
    calls: Mapping[str, str]  # the tool calls it makes: by id, the role of the message that has to answer
    answers: tuple[str, ...]  # the ids of the calls it answers
    is_prompt: bool  # the person speaks
    is_standing: bool  # an instruction of the application, which holds for the whole conversation


class EntryFactory:
    """Makes entries, with sizes by `counter` and results shortened to `max_chars` characters."""

    def __init__(self, counter: TokenCounter, max_chars: int) -> None:
        self._counter = counter
        self._max_chars = max_chars

    def entry(self, message: Message) -> Entry:
        """Return the facts about a message."""
        tokens = self._counter.tokens_of(message)
        shorter = shortened(message, self._max_chars)
        role = message.get("role")
        injected = from_hook(message)
        answers = () if role == "assistant" else _answers(message)
        return Entry(
            message,
            tokens,
            tokens if shorter is message else self._counter.tokens_of(shorter),
            _calls(message) if role == "assistant" else {},
            answers,
            role == "user" and not injected and not answers,
            role in ("system", "developer") and not injected,
        )

    def interrupted(self, call_id: str, role: str) -> Entry:
        """Return the result, of this role, of a call whose turn ended before it was answered."""
        result = {"type": "tool_result", "tool_call_id": call_id, "output": INTERRUPTED}
        content = INTERRUPTED if role == "tool" else [result]
        return self.entry({"role": role, "tool_call_id": call_id, "content": content})


def from_hook(message: Message) -> bool:
    """Return whether a hook injected the message."""
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("source") == "hook"


def _calls(message: Message) -> dict[str, str]:
    blocks = mappings_in(message.get("content"))
    found = [(block.get("id"), "function") for block in blocks if block.get("type") in CALL_BLOCKS]
    found += [(call.get("id"), "tool") for call in mappings_in(message.get("tool_calls"))]
    return {call_id: role for call_id, role in found if isinstance(call_id, str)}


def _answers(message: Message) -> tuple[str, ...]:
    call_id = message.get("tool_call_id")
    if isinstance(call_id, str) and message.get("role") in _RESULT_ROLES:
        return (call_id,)
    results = [block for block in mappings_in(message.get("content")) if block.get("type") == "tool_result"]
    ids = [block.get(key) for block in results for key in _RESULT_KEYS]
    return tuple(call_id for call_id in ids if isinstance(call_id, str))
