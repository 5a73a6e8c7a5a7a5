"""One answer of the model while its events come: what to show as it comes, and its blocks when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from amplifier_core.llm_errors import InvalidToolCallError, StreamError
from amplifier_core.message_models import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolCallBlock

from .prices import Spent

Kind = Literal["text", "thinking", "redacted_thinking", "tool_call"]

_KINDS: dict[str, Kind] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "redacted_thinking",
    "tool_use": "tool_call",
}
_SHOWN = frozenset({"text", "thinking"})
START, DELTA, END = "llm:stream_block_start", "llm:stream_block_delta", "llm:stream_block_end"
_SHOWN_CHARACTERS = 200  # of arguments that are no JSON


@dataclass(frozen=True, slots=True)
class Shown:
    """The start, a piece or the end of a block of text or thinking; `index` counts the blocks of the whole answer."""

    event: str
    kind: Kind
    index: int
    text: str = ""
    sequence: int = 0  # of a piece in its block


@dataclass(slots=True)
class _Open:
    """A block that is not over, or over: its text is thoughts, an answer, or the JSON of arguments."""

    kind: Kind | None  # None for a kind that this provider never requests, and skips
    texts: list[str] = field(default_factory=list)
    signature: str = ""
    data: str = ""
    id: str = ""
    name: str = ""
    is_over: bool = False
    shown: int = 0  # pieces
    half: str = ""  # the first half of a character whose second one comes with the next piece

    @classmethod
    def of(cls, content: Any) -> _Open:
        """Return the block that begins with this."""
        kind = _KINDS.get(content.type)
        match kind:
            case "text":
                return cls(kind, [content.text])
            case "thinking":
                return cls(kind, [content.thinking], signature=content.signature or "")
            case "redacted_thinking":
                return cls(kind, data=content.data)
            case "tool_call":
                return cls(kind, id=str(content.id), name=str(content.name))
        return cls(kind)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def sign(self, signature: str) -> None:
        self.signature += signature

    def show(self, index: int, text: str) -> Iterator[Shown]:
        """Yield a piece of a block that is shown, in whole characters."""
        text = self.half + text
        self.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = text.removesuffix(self.half).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if text and self.kind in _SHOWN:
            yield Shown(DELTA, self.kind, index, text, self.shown)
            self.shown += 1

    def end(self, index: int) -> Iterator[Shown]:
        self.is_over = True
        if self.kind in _SHOWN:
            yield Shown(END, self.kind, index)


class Reply:
    """The answer received so far. `first_index` is the index of its first block in the whole answer."""

    def __init__(self, first_index: int = 0) -> None:
        self.id = ""
        self.model = ""
        self.stop_reason = ""
        self.refusal = ""
        self.spent = Spent()
        self.first_index = first_index
        self._blocks: list[_Open] = []

    @property
    def is_whole(self) -> bool:
        return bool(self.stop_reason)

    @property
    def next_index(self) -> int:
        return self.first_index + len(self._blocks)

    def take(self, event: Any) -> list[Shown]:
        """Add an event, and return what to show.

        Raises:
            StreamError: the vendor sends no such event, or not in this place.
        """
        try:
            return [*self._take(event)]
        except (AttributeError, IndexError, TypeError, KeyError) as error:
            raise StreamError(f"the event {getattr(event, 'type', None)!r} makes no sense: {error}") from error

    def _take(self, event: Any) -> Iterator[Shown]:
        match event.type:
            case "content_block_delta":
                yield from self._delta(event.index, event.delta)
            case "content_block_start":
                yield from self._start(event.index, event.content_block)
            case "content_block_stop":
                yield from self._blocks[event.index].end(self.first_index + event.index)
            case "message_start":
                self.id, self.model = str(event.message.id), str(event.message.model)
                self.spent.take(event.message.usage)
            case "message_delta":
                self.stop_reason = str(event.delta.stop_reason or "")
                self.refusal = str(getattr(getattr(event.delta, "stop_details", None), "explanation", None) or "")
                self.spent.take(event.usage)

    def _start(self, index: int, content: Any) -> Iterator[Shown]:
        if index != len(self._blocks) or (self._blocks and not self._blocks[-1].is_over):
            raise IndexError(f"block {index} begins after {len(self._blocks)} blocks")
        block = _Open.of(content)
        self._blocks.append(block)
        if block.kind in _SHOWN:
            yield Shown(START, block.kind, self.first_index + index)
            yield from block.show(self.first_index + index, block.text)

    def _delta(self, index: int, delta: Any) -> Iterator[Shown]:
        block = self._blocks[index]
        match delta.type:
            case "text_delta":
                text = delta.text
            case "thinking_delta":
                text = delta.thinking
            case "input_json_delta":
                text = delta.partial_json
            case "signature_delta":
                block.sign(delta.signature)
                return
            case _:
                return
        if block.is_over:
            raise IndexError(f"block {index} goes on after its end")
        block.texts.append(text)
        yield from block.show(self.first_index + index, text)

    def wire_blocks(self) -> list[dict[str, Any]]:
        """Return the part of a cut-off answer that can be sent back to continue it."""
        made: list[dict[str, Any]] = []
        for block in self._blocks:
            if block.kind == "text" and block.text.strip():
                made.append({"type": "text", "text": block.text})
            elif block.kind == "thinking" and block.signature and block.is_over:
                made.append({"type": "thinking", "thinking": block.text, "signature": block.signature})
            elif block.kind == "redacted_thinking":
                made.append({"type": "redacted_thinking", "data": block.data})
        # Trailing white space and a message of thoughts alone are both refused.
        while made and made[-1]["type"] != "text":
            made.pop()
        if made:
            made[-1]["text"] = made[-1]["text"].rstrip()
        return made

    @property
    def has_calls(self) -> bool:
        return any(block.kind == "tool_call" and not self._is_cut_call(block) for block in self._blocks)

    def content(self, *, with_thinking: bool = True) -> list[Any]:
        """Return the blocks of the answer; a call that `max_tokens` cut off behind whole calls is left out.

        Raises:
            InvalidToolCallError: the arguments of a call are no JSON object; the model has to be told.
        """
        made: list[Any] = []
        for block in self._blocks:
            if block.kind == "text" and block.text:
                made.append(TextBlock(text=block.text))
            elif block.kind == "thinking" and with_thinking and (block.text or block.signature):
                made.append(ThinkingBlock(thinking=block.text, signature=block.signature or None))
            elif block.kind == "redacted_thinking" and with_thinking:
                made.append(RedactedThinkingBlock(data=block.data))
            elif block.kind == "tool_call" and not (self.has_calls and self._is_cut_call(block)):
                arguments = None if self._is_cut_call(block) else _arguments(block.text)
                if arguments is None:
                    raise _invalid(block.name, block.text, was_cut=self.was_cut)
                made.append(ToolCallBlock(id=block.id, name=block.name, input=arguments))
        return made

    @property
    def was_cut(self) -> bool:
        """Whether the answer ended where it may not be longer."""
        return self.stop_reason in ("max_tokens", "model_context_window_exceeded")

    def _is_cut_call(self, block: _Open) -> bool:
        is_last = self.was_cut and block is self._blocks[-1]
        return is_last and not (block.text and _arguments(block.text) is not None)


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def _invalid(name: str, text: str, *, was_cut: bool) -> InvalidToolCallError:
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    cut = "The answer was cut off there: pass less at once, or raise `max_output_tokens`. " if was_cut else ""
    return InvalidToolCallError(
        f"The model called `{name}` with arguments that are no JSON object: {shown!r}. {cut}Make the call again, with "
        "one JSON object.",
        retryable=False,
        tool_name=name,
        raw_arguments=text,
    )
