"""Cut a conversation into the pieces that must stay together.

A `Piece` is one message, or a reply with tool calls and the results that answer it: providers refuse either half alone.
A call without an answer, because its turn was cut off, gets a note as its answer here; a result without a call is left
out. Pieces belong to exchanges; an exchange begins with a message of the person. It is pure: entries are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from .entry import Entry, EntryFactory


class Piece:
    """Entries that are shown together or not at all; `exchange` counts from 0, the time before the first is -1.

    `tokens` is the size of all of them, `short_tokens` the size with the results in them shortened.
    """

    __slots__ = ("entries", "exchange", "is_standing", "is_tool_round", "open_calls", "short_tokens", "tokens")

    def __init__(self, exchange: int, first: Entry) -> None:
        self.exchange = exchange
        self.entries = [first]
        self.tokens = first.tokens
        self.short_tokens = first.short_tokens
        self.is_standing = first.is_standing
        self.is_tool_round = bool(first.calls)
        self.open_calls = dict(first.calls) if first.calls else {}

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.tokens += entry.tokens
        self.short_tokens += entry.short_tokens


def is_complete(entries: Iterable[Entry]) -> bool:
    """Return whether the pieces are surely the entries as they stand: each reply directly before all its results."""
    unanswered: set[str] = set()
    for entry in entries:
        if entry.answers:
            if not unanswered.issuperset(entry.answers):
                return False
            unanswered.difference_update(entry.answers)
        elif unanswered:
            return False
        elif entry.calls:
            unanswered = set(entry.calls)
    return not unanswered


def pieces_of(entries: Iterable[Entry], factory: EntryFactory) -> list[Piece]:
    """Return the conversation's pieces in order.

    A message that slipped in between a reply and its results, as a hook's injection does, comes after them.
    """
    pieces: list[Piece] = []
    waiting: dict[str, Piece] = {}  # tool call id -> the piece its result belongs to
    exchange = -1
    for entry in entries:
        if entry.answers:
            _answer(entry, waiting)
            continue
        exchange += entry.is_prompt
        piece = Piece(exchange, entry)
        pieces.append(piece)
        for call_id in entry.calls:
            waiting[call_id] = piece
    for piece in pieces:
        for call_id, role in piece.open_calls.items():
            piece.add(factory.interrupted(call_id, role))
    return pieces


def _answer(entry: Entry, waiting: dict[str, Piece]) -> None:
    """Add a result to the reply that asked for it, if there is one."""
    reply = next((waiting[call_id] for call_id in entry.answers if call_id in waiting), None)
    if reply is None:
        return
    reply.add(entry)
    for call_id in entry.answers:
        if reply.open_calls.pop(call_id, None) is not None:
            del waiting[call_id]
