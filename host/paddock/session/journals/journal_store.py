"""The place of a conversation's record: calls of the context, in their order.

A call of the context is noted without waiting, while its answer is on the way: what a caller knows to be said is in the
store. The store keeps all entries at hand, also those that it could not write, so the session itself loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from paddock.rpc.peer import Encoded


class JournalEntry(NamedTuple):
    """A call that changed the conversation; it is a tuple, because one is made for every message."""

    method: str
    message: Encoded


class JournalStore:
    """Keeps the entries of one conversation, in the order in which it gets them, for as long as the host lives.

    A store that writes them elsewhere as well extends this; a failure to do so is its own to tell of.
    """

    def __init__(self) -> None:
        self._entries: list[JournalEntry] = []

    def append(self, entry: JournalEntry) -> None:
        """Add an entry at the end."""
        self._entries.append(entry)

    def replace(self, entries: Sequence[JournalEntry]) -> None:
        """Have these entries in place of all that there are."""
        self._entries = list(entries)

    def load(self) -> Sequence[JournalEntry]:
        """Return the entries."""
        return self._entries
