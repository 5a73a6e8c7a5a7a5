"""A second store for the journal of a conversation, in memory, with the faults that a real one may have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from paddock.session.journal_store import JournalEntry


class TwinStore:
    """Another store in memory. It is slow if `is_slow`, until `finish`, and fails at the steps in `fails_at`.

    With `shows_early`, what a slow step does is seen before the step ends, and stays if it fails.
    """

    def __init__(self, *, is_slow: bool = False, fails_at: Sequence[int] = (), shows_early: bool = False) -> None:
        self.kept: list[JournalEntry] = []
        self.steps = 0
        self._is_slow = is_slow
        self._fails_at = fails_at
        self._shows_early = shows_early
        self._going_on: asyncio.Future[None] | None = None
        self._do: Callable[[], None] = lambda: None

    def append(self, entry: JournalEntry) -> asyncio.Future[None] | None:
        return self._step(lambda: self.kept.append(entry))

    def replace(self, entries: Sequence[JournalEntry]) -> asyncio.Future[None] | None:
        def do() -> None:
            self.kept[:] = entries

        return self._step(do)

    def load(self) -> Sequence[JournalEntry]:
        return tuple(self.kept)

    @property
    def is_working(self) -> bool:
        return self._going_on is not None

    def finish(self) -> None:
        """End the step that goes on, well or as a failure."""
        going_on, self._going_on = self._going_on, None
        assert going_on is not None
        if self.steps in self._fails_at:
            going_on.set_exception(OSError("the disk is full"))
        else:
            self._do()
            going_on.set_result(None)

    def cancel(self) -> None:
        """Cancel the step that goes on."""
        assert self._going_on is not None
        self._going_on.cancel()

    def _step(self, do: Callable[[], None]) -> asyncio.Future[None] | None:
        assert self._going_on is None, "one step at a time"
        self.steps += 1
        if not self._is_slow:
            if self.steps in self._fails_at:
                raise OSError("the disk is full")
            do()
            return None
        self._do = do
        if self._shows_early:
            self._do()
            self._do = lambda: None
        self._going_on = asyncio.get_running_loop().create_future()
        return self._going_on
