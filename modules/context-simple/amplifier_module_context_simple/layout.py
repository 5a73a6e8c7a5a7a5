"""Cut a conversation into the pieces that must stay together.

A `Piece` is one message, or a reply with tool calls and the results that answer it: providers refuse either half
alone. Pieces belong to exchanges; an exchange begins where the person speaks. Pure functions over lists of messages,
which are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]

_RESULT_ROLES = ("tool", "function")


@dataclass(slots=True)
class Piece:
    """Messages that are shown together or not at all; `exchange` counts from 0, the time before the first is -1."""

    exchange: int
    messages: list[Message] = field(default_factory=list)

    @property
    def is_standing(self) -> bool:
        """Whether this is an instruction of the application, which holds for the whole conversation."""
        first = self.messages[0]
        return first.get("role") in ("system", "developer") and not from_hook(first)

    @property
    def is_prompt(self) -> bool:
        """Whether this is the person speaking."""
        return self.messages[0].get("role") == "user" and not from_hook(self.messages[0])

    @property
    def is_tool_round(self) -> bool:
        return any(message.get("role") in _RESULT_ROLES for message in self.messages)


def pieces_of(messages: Iterable[Message]) -> list[Piece]:
    """Return the conversation's pieces in order.

    A message that slipped in between a reply and its results, as a hook's injection does, comes after them.
    """
    pieces: list[Piece] = []
    waiting: dict[str, Piece] = {}  # tool call id -> the piece its result belongs to
    exchange = -1
    for message in messages:
        call_id = result_id(message)
        if call_id is not None and call_id in waiting:
            waiting.pop(call_id).messages.append(message)
            continue
        piece = Piece(exchange, [message])
        if piece.is_prompt:
            exchange += 1
            piece.exchange = exchange
        pieces.append(piece)
        waiting.update(dict.fromkeys(call_ids(message), piece))
    return pieces


def from_hook(message: Message) -> bool:
    """Return whether a hook injected the message."""
    metadata = message.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("source") == "hook"


def call_ids(message: Message) -> list[str]:
    """Return the ids of the tool calls a reply makes, from `tool_calls` and from its blocks."""
    if message.get("role") != "assistant":
        return []
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    calls = [block for block in blocks if isinstance(block, Mapping) and block.get("type") == "tool_call"]
    listed = message.get("tool_calls") or []
    found = [call.get("id") for call in (*listed, *calls) if isinstance(call, Mapping)]
    return [call_id for call_id in found if isinstance(call_id, str)]


def result_id(message: Message) -> str | None:
    """Return the id of the tool call a message answers, or None."""
    if message.get("role") not in _RESULT_ROLES:
        return None
    call_id = message.get("tool_call_id")
    if call_id is None and isinstance(message.get("content"), list):
        blocks = [block for block in message["content"] if isinstance(block, Mapping)]
        call_id = next((block.get("tool_call_id") for block in blocks if block.get("type") == "tool_result"), None)
    return call_id if isinstance(call_id, str) else None
