"""Choose the part of a conversation to show when not all of it fits.

The cheapest loss comes first: old tool results are shortened, then old exchanges are left out whole, oldest first. If
the recent exchanges alone are too large, their older tool rounds follow, and then all but the last exchange.
Instructions of the application, the last prompt and the messages around its last tool round always stay. If these are
too large, the results of that round are shortened, the largest first. A view whose other texts are too large stays so;
the provider then reports an error.
It is pure: the pieces passed in are never changed. Its time grows with the conversation, not with its square.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from .blocks import shortened
from .entry import Message
from .layout import Piece

Step = Callable[[], None]

_CHARS_PER_TOKEN = 4  # of ordinary text; a text that takes fewer is only measured once more


@dataclass(frozen=True, slots=True)
class View:
    """The shown messages, and what was lost."""

    messages: list[Message]
    tokens: int
    shortened_results: int = 0


def whole(pieces: Sequence[Piece]) -> View:
    """Return the view that leaves nothing out."""
    messages = [entry.message for piece in pieces for entry in piece.entries]
    return View(messages, sum([piece.tokens for piece in pieces]))


class _Compaction:
    """One conversation being reduced, piece by piece. Sizes are kept as it goes, messages made at the end."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._sizes = [piece.tokens for piece in pieces]
        self._shortened: set[int] = set()
        self._chars: dict[int, int] = {}  # of each result in the round that has to fit
        self._dropped: set[int] = set()
        self.tokens = sum(self._sizes)

    def shorten(self, index: int) -> None:
        self._shortened.add(index)
        self._resize(index, self._pieces[index].short_tokens)

    def drop(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            self._dropped.add(index)
            self._resize(index, 0)

    def fit(self, index: int, room: int, least: int, tokens_of: Callable[[Message], int]) -> None:
        """Shorten the results of a tool round to as many characters each as `room` tokens demand, at least `least`."""
        entries = self._pieces[index].entries
        chars = max(room * _CHARS_PER_TOKEN, least + 1)  # nothing that is longer fits
        while self.tokens > room and chars > least:
            chars = max(chars * 3 // 4, least)
            self._chars[index] = chars
            self._resize(index, sum(tokens_of(shortened(entry.message, chars)) for entry in entries))

    def view(self, max_chars: int) -> View:
        messages: list[Message] = []
        cut = 0
        for index, piece in enumerate(self._pieces):
            if index in self._dropped:
                continue
            chars = max_chars if index in self._shortened else self._chars.get(index)
            for entry in piece.entries:
                shown = entry.message if chars is None else shortened(entry.message, chars)
                cut += shown is not entry.message
                messages.append(shown)
        return View(messages, self.tokens, cut)

    def _resize(self, index: int, size: int) -> None:
        self.tokens += size - self._sizes[index]
        self._sizes[index] = size


def compacted(
    pieces: Sequence[Piece],
    *,
    target: int,
    limit: int,
    keep_turns: int,
    max_chars: int,
    tokens_of: Callable[[Message], int],
) -> View:
    """Return a view of at most `target` tokens if leaving out old exchanges achieves that.

    The last `keep_turns` exchanges are only reduced as far as the view would otherwise exceed `limit`.
    """
    compaction = _Compaction(pieces)
    newest = pieces[-1].exchange if pieces else -1
    movable = [index for index, piece in enumerate(pieces) if not piece.is_standing]
    old = [index for index in movable if pieces[index].exchange <= newest - keep_turns]
    recent = movable[len(old) :]

    def work_through(steps: Iterator[Step], goal: int) -> None:
        while compaction.tokens > goal and (step := next(steps, None)) is not None:
            step()

    work_through(_old_steps(compaction, pieces, old), target)
    work_through(_recent_steps(compaction, pieces, recent, newest), limit)
    rounds = [index for index in recent if pieces[index].is_tool_round]
    if rounds and pieces[rounds[-1]].exchange == newest:
        compaction.fit(rounds[-1], limit, max_chars, tokens_of)
    return compaction.view(max_chars)


def _old_steps(compaction: _Compaction, pieces: Sequence[Piece], old: Sequence[int]) -> Iterator[Step]:
    for index in old:
        if pieces[index].is_tool_round:
            yield partial(compaction.shorten, index)
    for exchange in _exchanges(pieces, old):
        yield partial(compaction.drop, exchange)


def _recent_steps(
    compaction: _Compaction, pieces: Sequence[Piece], recent: Sequence[int], newest: int
) -> Iterator[Step]:
    rounds = [index for index in recent if pieces[index].is_tool_round][:-1]
    for index in rounds:
        yield partial(compaction.shorten, index)
    for index in rounds:
        yield partial(compaction.drop, [index])
    for exchange in _exchanges(pieces, [index for index in recent if pieces[index].exchange < newest]):
        yield partial(compaction.drop, exchange)


def _exchanges(pieces: Sequence[Piece], indexes: Iterable[int]) -> list[list[int]]:
    """Return the indexes by exchange, the oldest first; pieces stand in the order of their exchanges."""
    return [list(group) for _, group in groupby(indexes, key=lambda index: pieces[index].exchange)]
