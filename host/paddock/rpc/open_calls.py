"""The calls that the host made to one worker, until the worker has ended them.

A call that its caller gave up stays here, if it has a deadline, for as long as the worker goes on with it: it still
counts among those that the worker serves, and is overdue like any other. All else looks at running calls only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from paddock_sdk.protocol import Connection, Frame

FOREVER: Final = float("inf")


class OpenCall:
    """A call that the host made to a worker and that has not ended.

    `deadline` and `last_deadline` are in loop time. For the first, time stands still while the worker itself waits for
    other workers, in a call made on behalf of this one; it runs while the host answers the worker. For the second, it
    stands only while the call is held: a person is asked, a sub-session works for it, or its reader wants no item.
    """

    __slots__ = (
        "_held",
        "_held_since",
        "_nested",
        "_nested_since",
        "began",
        "deadline",
        "id",
        "is_cancelled",
        "last_deadline",
    )

    def __init__(self, deadline: float = FOREVER) -> None:
        self.id = 0
        self.began = 0.0  # in loop time
        self.deadline = deadline
        self.last_deadline = FOREVER
        self.is_cancelled = False  # no caller waits for it, and the worker was asked to end it
        self._nested = 0
        self._nested_since = 0.0
        self._held = 0
        self._held_since = 0.0

    @property
    def level(self) -> int:
        """How many calls wait for this one, each for the next."""
        return 0

    def note_id(self, id: int) -> None:
        """Note its number on the connection: it was sent."""
        self.id = id
        self.began = time.monotonic()

    def mark_cancelled(self, now: float) -> None:
        """Note that the worker was sent a cancellation."""
        self.is_cancelled = True
        self.on_cancelled(now)

    def limit_time(self, now: float, seconds: float) -> None:
        """Require it to end within this many seconds from now."""
        self.deadline = now + seconds

    def nested_begins(self, now: float) -> None:
        """The worker started to wait for others."""
        if self._nested == 0:
            self._nested_since = now
        self._nested += 1

    def nested_ends(self, now: float) -> None:
        """The worker got its answer."""
        self._nested -= 1
        if self._nested == 0:
            self.deadline += now - self._nested_since

    def limit_all_time(self, now: float, seconds: float) -> None:
        """Require it to end within this many seconds from now, also while the worker waits for others."""
        self.last_deadline = now + seconds

    def hold(self, now: float) -> None:
        """A person is asked for it, a sub-session works for it, or nobody wants its next item."""
        if self._held == 0:
            self._held_since = now
        self._held += 1

    def go_on(self, now: float) -> None:
        """What it was held for is over."""
        self._held -= 1
        if self._held == 0:
            self.last_deadline += now - self._held_since

    def leave_out(self, seconds: float) -> None:
        """Do not count this time, in which the host did not run."""
        if self._nested <= 0:
            self.deadline += seconds
        if self._held <= 0:
            self.last_deadline += seconds

    def is_overdue(self, now: float) -> bool:
        return (self._nested <= 0 and now >= self.deadline) or self.is_over_all_time(now)

    def is_over_all_time(self, now: float) -> bool:
        """Whether it is its last deadline that has passed."""
        return self._held <= 0 and now >= self.last_deadline

    @property
    def has_deadline(self) -> bool:
        """Whether it can become overdue."""
        return self.deadline != FOREVER or self.last_deadline != FOREVER

    def on_end(self, frame: Frame | None) -> None:
        """Take the end of the call: an answer, or None because the connection is gone."""
        raise NotImplementedError

    def on_cancelled(self, now: float) -> None:
        """Allow the worker, which was sent a cancellation, the time of a call to end it."""

    def on_over(self) -> None:
        """Note that no caller waits any more, so the call will not be ended; `on_end` does the same."""

    def on_item(self, frame: Frame) -> None:
        """Take an item of the stream that answers the call."""

    def on_overdue(self) -> None:
        """Handle a call that takes longer than it may; called at every tick until it ends."""


class OpenCalls:
    """The calls by their numbers on `connection`, the oldest first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls: dict[int, OpenCall] = {}

    def add(self, id: int, call: OpenCall) -> None:
        """Note that a call was sent under this number."""
        call.note_id(id)
        self._calls[id] = call

    def take(self, id: int) -> OpenCall | None:
        """Forget the call of this number; return it if it was running."""
        call = self._calls.pop(id, None)
        return None if call is None or call.is_cancelled else call

    def take_all(self) -> list[OpenCall]:
        """Forget every call; return those that were running."""
        running = self.running()
        self._calls.clear()
        return running

    def keep_cancelled(self, call: OpenCall, now: float) -> None:
        """Keep a call whose cancellation is on its way, unless it may take forever."""
        call.mark_cancelled(now)
        if call.has_deadline:
            self._calls[call.id] = call

    def get(self, id: int) -> OpenCall | None:
        """Return the running call of this number."""
        call = self._calls.get(id)
        return None if call is None or call.is_cancelled else call

    def is_running(self, call: OpenCall) -> bool:
        """Whether the worker has yet to end a call, and its caller waits; another worker's call is not running here."""
        return self._calls.get(call.id) is call and not call.is_cancelled

    def running(self) -> list[OpenCall]:
        """Return the calls whose callers wait."""
        return [call for call in self._calls.values() if not call.is_cancelled]

    def oldest(self) -> int | None:
        """Return the number of the running call that began first."""
        return next((id for id, call in self._calls.items() if not call.is_cancelled), None)

    def latest(self) -> OpenCall | None:
        """Return the running call that began last."""
        return next((call for call in reversed(self._calls.values()) if not call.is_cancelled), None)

    def number(self, level: int) -> int:
        """Return how many calls of this nesting level the worker serves, including those that were given up."""
        return sum(call.level == level and not self._has_ended(id, call) for id, call in self._calls.items())

    def overdue(self, now: float, stopped: float) -> Iterator[OpenCall]:
        """Yield the calls that ran too long, less the time the host was stopped; forget those given up that ended."""
        for id in [id for id, call in self._calls.items() if self._has_ended(id, call)]:
            del self._calls[id]
        for call in list(self._calls.values()):
            call.leave_out(stopped)
            if call.is_overdue(now):
                yield call

    @property
    def have_deadlines(self) -> bool:
        """Whether any of them can become overdue."""
        return any(call.has_deadline for call in self._calls.values())

    def _has_ended(self, id: int, call: OpenCall) -> bool:
        """Whether the worker has ended a call that was given up; the connection drops such an end."""
        return call.is_cancelled and not self._connection.is_calling(id)
