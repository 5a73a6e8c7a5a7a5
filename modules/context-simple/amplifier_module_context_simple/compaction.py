"""Choose what of a conversation to show when not all of it fits.

The cheapest loss first: old tool results are shortened, then old exchanges left out whole, oldest first. Only when the
recent exchanges alone are too large do their older tool rounds follow, and then all but the last exchange. Instructions
of the application, the last prompt and what surrounds its last tool round always stay, so a view may still be too
large; the provider then says so.
Pure: the conversation passed in is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .layout import Message, Piece, pieces_of
from .tokens import total

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class View:
    """What is shown, and what that cost."""

    messages: list[Message]
    tokens: int
    removed_messages: int
    shortened_results: int


class _Compaction:
    """One conversation being reduced, piece by piece."""

    def __init__(self, pieces: Sequence[Piece], max_chars: int) -> None:
        self._max_chars = max_chars
        self._shown: dict[int, list[Message]] = {index: list(piece.messages) for index, piece in enumerate(pieces)}
        self._sizes = {index: total(shown) for index, shown in self._shown.items()}
        self.tokens = sum(self._sizes.values())
        self.removed = 0
        self.shortened = 0

    def shorten(self, index: int) -> None:
        for position, message in enumerate(self._shown[index]):
            shorter = shortened(message, self._max_chars)
            if shorter is not message:
                self._shown[index][position] = shorter
                self.shortened += 1
        self._resize(index, total(self._shown[index]))

    def drop(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            self.removed += len(self._shown.pop(index, ()))
            self._resize(index, 0)

    def view(self) -> View:
        messages = [message for index in sorted(self._shown) for message in self._shown[index]]
        return View(messages, self.tokens, self.removed, self.shortened)

    def _resize(self, index: int, size: int) -> None:
        self.tokens += size - self._sizes[index]
        self._sizes[index] = size


def compacted(messages: Sequence[Message], *, target: int, limit: int, keep_turns: int, max_chars: int) -> View:
    """Return a view of at most `target` tokens if leaving out old exchanges achieves that.

    What concerns the last `keep_turns` exchanges is only touched as far as the view would otherwise exceed `limit`.
    """
    pieces = pieces_of(messages)
    newest = max((piece.exchange for piece in pieces), default=-1)
    compaction = _Compaction(pieces, max_chars)
    first_recent = newest - keep_turns + 1

    def work_through(steps: Iterator[Step], goal: int) -> None:
        while compaction.tokens > goal and (step := next(steps, None)) is not None:
            step()

    work_through(_old_steps(compaction, pieces, first_recent), target)
    work_through(_recent_steps(compaction, pieces, first_recent), limit)
    return compaction.view()


def _old_steps(compaction: _Compaction, pieces: Sequence[Piece], first_recent: int) -> Iterator[Step]:
    old = [index for index, piece in enumerate(pieces) if piece.exchange < first_recent and not piece.is_standing]
    for index in old:
        if pieces[index].is_tool_round:
            yield partial(compaction.shorten, index)
    yield from _whole_exchanges(compaction, pieces, old)


def _recent_steps(compaction: _Compaction, pieces: Sequence[Piece], first_recent: int) -> Iterator[Step]:
    recent = [index for index, piece in enumerate(pieces) if piece.exchange >= first_recent and not piece.is_standing]
    rounds = [index for index in recent if pieces[index].is_tool_round][:-1]
    for index in rounds:
        yield partial(compaction.shorten, index)
    for index in rounds:
        yield partial(compaction.drop, [index])
    newest = pieces[-1].exchange
    yield from _whole_exchanges(compaction, pieces, [index for index in recent if pieces[index].exchange < newest])


def _whole_exchanges(compaction: _Compaction, pieces: Sequence[Piece], indexes: Sequence[int]) -> Iterator[Step]:
    for exchange in sorted({pieces[index].exchange for index in indexes}):
        yield partial(compaction.drop, [index for index in indexes if pieces[index].exchange == exchange])


def shortened(message: Message, max_chars: int) -> Message:
    """Return a tool result cut to its first characters and a note on what is missing, or the message itself."""
    if message.get("role") not in ("tool", "function"):
        return message
    content = message.get("content")
    if isinstance(content, list):
        blocks = [_shortened_block(block, max_chars) for block in content]
        changed = any(new is not old for new, old in zip(blocks, content, strict=True))
        return {**message, "content": blocks} if changed else message
    text = _cut(content, max_chars)
    return message if text is content else {**message, "content": text}


def _shortened_block(block: Any, max_chars: int) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "image":
        return {"type": "text", "text": "[image left out to save space]"}
    key = "output" if block.get("type") == "tool_result" else "text"
    text = _cut(block.get(key), max_chars)
    return block if text is block.get(key) else {**block, key: text}


def _cut(text: Any, max_chars: int) -> Any:
    if not isinstance(text, str):
        return text
    note = f"\n[shortened: {len(text) - max_chars} of {len(text)} characters left out]"
    return text if len(text) <= max_chars + len(note) else text[:max_chars] + note
