"""One reply of the model as it arrives, so that the part that was shown of it can be kept.

A provider announces the pieces of its reply itself (`HeardReply`), or has a stream, whose pieces become content blocks
here, announced one by one and in order (`StreamedReply`).

Such a stream yields pieces, a text or a mapping with the text under `content`, `text` or `delta`, and at best a whole
response at its end. A mapping is thinking if its `block_type` or `type` contains that word; mappings without text are
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from agent_loop.hook_gate import HookGate
from agent_loop.messages import blocks_of, usage_of, well_formed
from agent_loop.spans import Span
from amplifier_core import events
from amplifier_core.message_models import ChatResponse, TextBlock, ThinkingBlock

PIECE = "llm:stream_block_delta"  # the event by which a provider announces a piece
Heard: TypeAlias = "WeakValueDictionary[str, HeardReply]"  # the reply that events are about, by their turn's id

_TEXT, _THINKING = "text", "thinking"


class HeardReply:
    """The blocks of one reply, by their places; another try of a request replaces those of the first."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[Any, list[str]]] = {}  # the request and the pieces of text

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


class StreamedReply:
    """The pieces received so far."""

    def __init__(self, gate: HookGate, span: Span) -> None:
        self._gate = gate
        self._span = span
        self._blocks: list[tuple[str, list[str]]] = []  # type and pieces
        self._is_open = False  # whether the last block's end is still to be announced
        self._half = ""  # the first half of a character whose second one comes with the next piece
        self._response: Any | None = None
        self.is_whole = False  # whether the stream has come to its end

    @property
    def has_begun(self) -> bool:
        """Whether anything was announced."""
        return bool(self._blocks)

    @property
    def text(self) -> str:
        """The model's text so far, without its thinking."""
        return "\n\n".join("".join(pieces) for kind, pieces in self._blocks if kind == _TEXT)

    async def take(self, piece: Any) -> None:
        """Add an item of the stream, and announce it."""
        if isinstance(piece, str):
            kind, text = _TEXT, piece
        elif isinstance(piece, Mapping):
            kind, text = _read(piece)
        else:
            self._response = piece
            return
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = well_formed(text.removesuffix(self._half))
        if not text:
            return
        if not self._is_open or self._blocks[-1][0] != kind:
            await self._end_block(None)
            self._blocks.append((kind, []))
            self._is_open = True
            await self._gate.announce(events.CONTENT_BLOCK_START, self._span, self._place(kind))
        self._blocks[-1][1].append(text)
        await self._gate.announce(events.CONTENT_BLOCK_DELTA, self._span, {**self._place(kind), "delta": text})

    def finish(self) -> Any:
        """Return the whole response: the stream's own, or one made of its pieces."""
        self.is_whole = True
        if self._response is None:
            made = [
                TextBlock(text=block["text"]) if block["type"] == _TEXT else ThinkingBlock(thinking=block["thinking"])
                for block in map(_block, self._blocks)
            ]
            self._response = ChatResponse(content=list(made))
        return self._response

    async def show_rest(self, response: Any) -> None:
        """Announce the end of the last block, and the blocks that did not come in pieces, as tool calls."""
        rest, usage = blocks_of(response), usage_of(response)
        final: dict[str, Any] | None = None
        for kind, _ in self._blocks:  # the response contains the received pieces as well, in the same order
            final = next((block for block in rest if block.get("type") == kind), None)
            if final is not None:
                rest.remove(final)
        spent = {} if usage is None else {"usage": usage}
        await self._end_block(final, **({} if rest else spent))
        first = len(self._blocks)
        for index, block in enumerate(rest):
            place = {"block_type": block.get("type"), "block_index": first + index}
            await self._gate.announce(events.CONTENT_BLOCK_START, self._span, place)
            last = spent if index == len(rest) - 1 else {}
            await self._gate.announce(events.CONTENT_BLOCK_END, self._span, {**place, "block": block, **last})

    async def break_off(self) -> None:
        """Announce that the block at work ends here."""
        await self._end_block(None, aborted=True)

    async def _end_block(self, final: Mapping[str, Any] | None, **more: Any) -> None:
        if not self._is_open:
            return
        self._is_open = False
        block = final if final is not None else _block(self._blocks[-1])
        place = self._place(self._blocks[-1][0])
        await self._gate.announce(events.CONTENT_BLOCK_END, self._span, {**place, "block": block, **more})

    def _place(self, kind: str) -> dict[str, Any]:
        return {"block_type": kind, "block_index": len(self._blocks) - 1}


def _read(piece: Mapping[str, Any]) -> tuple[str, str]:
    """Return the type of block that a piece belongs to, and its text."""
    name = str(piece.get("block_type") or piece.get("type") or _TEXT)
    kind = _THINKING if _THINKING in name else _TEXT
    texts = (piece.get(key) for key in ("content", "text", "delta"))
    return kind, next((text for text in texts if isinstance(text, str) and text), "")


def _block(block: tuple[str, list[str]]) -> dict[str, Any]:
    kind, pieces = block
    return {"type": kind, kind: "".join(pieces)}
