"""One reply of the model as it arrives: its pieces are announced, and kept in case it is broken off.

Most providers announce the pieces themselves. The pieces of one with a stream are announced here, by the same events.
Such a stream yields a text, or a mapping with the text under `content`, `text` or `delta`, and at best a whole response
at its end. A mapping is thinking if its `block_type` or `type` contains that word; mappings without text are skipped.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable, Mapping
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from agent_loop.hook_gate import HookGate
from agent_loop.messages import well_formed
from agent_loop.spans import Span
from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock

START, PIECE, END = "llm:stream_block_start", "llm:stream_block_delta", "llm:stream_block_end"
Heard: TypeAlias = "WeakValueDictionary[str, HeardReply]"  # the reply that events are about, by their turn's id

_TEXT, _THINKING = "text", "thinking"


class HeardReply:
    """The blocks of one reply, by their places; another try of a request replaces those of the first."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[Any, list[str]]] = {}  # the request and the pieces of text

    @property
    def has_begun(self) -> bool:
        """Whether anything was announced."""
        return bool(self._blocks)

    @property
    def text(self) -> str:
        """The model's text so far, without its thinking."""
        return "\n\n".join(text for _, pieces in self._blocks.values() if (text := "".join(pieces)))

    def take(self, data: Mapping[str, Any]) -> None:
        """Add a piece; a value of the wrong type is ignored."""
        index, request, text = data.get("block_index"), data.get("request_id"), data.get("text")
        if isinstance(index, int) and isinstance(text, str):
            kept = {place: block for place, block in self._blocks.items() if place < index or block[0] == request}
            self._blocks = kept
            pieces = kept.setdefault(index, (request, []))[1]
            if _TEXT in str(data.get("block_type") or _TEXT):
                pieces.append(text)


async def response_of(stream: AsyncIterable[Any], gate: HookGate, span: Span) -> Any:
    """Announce the pieces of a stream as they come; return its response, or one made of its pieces."""
    response: Any | None = None
    blocks: list[tuple[str, list[str]]] = []  # type and pieces
    request_id, half = uuid.uuid4().hex, ""  # the half of a character waits for the other one
    place: dict[str, Any] = {}
    async for piece in stream:
        if isinstance(piece, str):
            kind, text = _TEXT, piece
        elif isinstance(piece, Mapping):
            kind, text = _read(piece)
        else:
            response = piece
            continue
        text = half + text
        half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = well_formed(text.removesuffix(half))
        if not text:
            continue
        if not blocks or blocks[-1][0] != kind:
            if blocks:
                await gate.announce(END, span, place)
            place = {"request_id": request_id, "block_index": len(blocks), "block_type": kind}
            blocks.append((kind, []))
            await gate.announce(START, span, place)
        await gate.announce(PIECE, span, {**place, "sequence": len(blocks[-1][1]), "text": text})
        blocks[-1][1].append(text)
    if blocks:
        await gate.announce(END, span, place)
    if response is not None:
        return response
    made = [(kind, "".join(pieces)) for kind, pieces in blocks]
    return ChatResponse(
        content=[TextBlock(text=text) if kind == _TEXT else ThinkingBlock(thinking=text) for kind, text in made]
    )


def _read(piece: Mapping[str, Any]) -> tuple[str, str]:
    """Return the type of block that a piece belongs to, and its text."""
    name = str(piece.get("block_type") or piece.get("type") or _TEXT)
    kind = _THINKING if _THINKING in name else _TEXT
    texts = (piece.get(key) for key in ("content", "text", "delta"))
    return kind, next((text for text in texts if isinstance(text, str) and text), "")
