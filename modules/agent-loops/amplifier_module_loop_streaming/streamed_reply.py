"""A provider's stream as it arrives: its pieces are announced, by the events in which most providers do so themselves.

Such a stream yields a text, or a mapping with the text under `content`, `text` or `delta`, and at best a whole response
at its end. A mapping is thinking if its `block_type` or `type` contains that word; mappings without text are skipped.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable, Mapping
from typing import Any

from agent_loop.heard_reply import PIECE
from agent_loop.hook_gate import HookGate
from agent_loop.messages import well_formed
from agent_loop.spans import Span
from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock

START, END = "llm:stream_block_start", "llm:stream_block_end"

_TEXT, _THINKING = "text", "thinking"


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
