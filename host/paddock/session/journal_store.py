"""The place of a conversation's record, and the order in which a record comes there.

A call of the context is noted without waiting, while its answer is on the way. A store that is done at once is called
right then, so what a caller knows to be said is stored. A store may also return a future; then what is noted meanwhile
waits, and is handed over in its order, one step at a time, without a task, a lock or a timer.

A store that fails is given nothing more, so that its record has no gap. What it lacks stays here: the session itself
loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple, Protocol

from paddock.rpc.peer import Encoded

_log: Final = logging.getLogger(__name__)


class JournalEntry(NamedTuple):
    """A call that changed the conversation. Its number is above those of all entries before it.

    It is a tuple, because one is made for every message.
    """

    number: int
    method: str
    message: Encoded


class JournalStore(Protocol):
    """Keeps the entries of one conversation, in the order in which it gets them.

    `append` and `replace` return None when it is done, or a future that ends when it is done and has the error if it
    fails. Until then neither is called again. An error that they raise is a failure as well.
    """

    def append(self, entry: JournalEntry) -> asyncio.Future[None] | None:
        """Add an entry at the end."""

    def replace(self, entries: Sequence[JournalEntry]) -> asyncio.Future[None] | None:
        """Have these entries in place of all that there are."""

    def load(self) -> Sequence[JournalEntry]:
        """Return the entries; of one that is on its way, whether it is among them is not defined."""


class MemoryStore:
    """Keeps the entries for as long as the host lives."""

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


class _Step(NamedTuple):
    """One change of the record: entries that follow the others, or that replace them."""

    entries: tuple[JournalEntry, ...]
    replaces: bool


class OrderedWriter:
    """Hands changes to a store in the order in which they were made; after the error in `failure` it gets none."""

    def __init__(self, store: JournalStore) -> None:
        self.failure: BaseException | None = None
        self._store = store
        self._waiting: deque[_Step] = deque()  # what the store has not done, the step that it works on among it
        self._working: asyncio.Future[None] | None = None

    def append(self, entry: JournalEntry) -> None:
        """Add an entry at the end of the record."""
        self._put(_Step((entry,), replaces=False))

    def replace(self, *entries: JournalEntry) -> None:
        """Have these entries in place of the record."""
        working = 1 if self._working is not None else 0
        while len(self._waiting) > working:  # the store need not see what no longer counts
            self._waiting.pop()
        self._put(_Step(entries, replaces=True))

    def entries(self) -> list[JournalEntry]:
        """Return the whole record, also what the store has not done.

        Raises:
            Exception: the store's, if it cannot return its part.
        """
        if not self._waiting:
            return list(self._store.load())
        if any(step.replaces for step in self._waiting):
            entries = []
        else:
            first = self._waiting[0].entries[0].number
            entries = list(takewhile(lambda entry: entry.number < first, self._store.load()))
        for step in self._waiting:
            entries = [*([] if step.replaces else entries), *step.entries]
        return entries

    async def settled(self) -> None:
        """Wait until the store has done everything, or has failed."""
        while self._working is not None:
            await asyncio.wait([self._working])

    def _put(self, step: _Step) -> None:
        self._waiting.append(step)
        if self._working is None and self.failure is None:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting:
            step = self._waiting[0]
            try:
                working = self._store.replace(step.entries) if step.replaces else self._store.append(step.entries[0])
            except Exception as error:  # any of the store's own
                self._fail(error)
                return
            if working is not None:
                self._working = working
                working.add_done_callback(self._on_done)
                return
            self._waiting.popleft()

    def _on_done(self, done: asyncio.Future[None]) -> None:
        self._working = None
        error = asyncio.CancelledError("it was cancelled") if done.cancelled() else done.exception()
        if error is not None:
            self._fail(error)
            return
        self._waiting.popleft()
        self._go_on()

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        _log.error("the store of the conversation failed, and its record ends there: %s", error, exc_info=error)
