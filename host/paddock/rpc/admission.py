"""Delay the requests of a worker that makes the host do too much, until the host has caught up.

Values that the host reads and writes for a worker are charged to its budget. While a worker is in debt, its further
requests wait, in order, and the deadline of a call that it serves runs on. Nothing else waits, in particular not its
answers, and no worker is ended for it. A request that is cancelled meanwhile is forgotten with its body.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from paddock.token_bucket import TokenBucket
from paddock_sdk.protocol.caps import count_values
from paddock_sdk.protocol.frames import Buffer

_PAUSE: Final = 0.01  # seconds between two looks: a look for each of many small requests would cost more than they do
_ADMITTED_AT_ONCE: Final = 64  # requests; then everything else has its turn
_SMALL_BYTES: Final = 1024  # of a body; the number of values in one of these is estimated: counting them costs more
_GUESSED_BYTES: Final = 4  # of such a body for each of its values
_VALUES_EACH: Final = 16  # that a message counts for besides those in it
_TEXT_BYTES: Final = 1024  # that take as long as a value


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """How much the host does for one worker.

    `runtime_max` are the seconds that one call of the worker may take, without its waiting for the host, `call_max`
    those of a call by the host or an orchestrator with all that it waits for. At most `calls_max` of its own requests
    may wait for an answer, with bodies of `open_bytes_max`. `work` counts the values that the host reads and writes for
    it before its requests are delayed. `answers` counts those of answers by others to it, before it waits for the next.
    It may leave its messages unread for `unread_seconds`, unless it serves a call.
    """

    runtime_max: float
    call_max: float
    calls_max: int
    work: TokenBucket
    answers: TokenBucket
    open_bytes_max: int
    unread_seconds: float


class AdmissionControl:
    """The requests of one worker, and its debt; `fail` gets the exception that admitting a request raises."""

    __slots__ = ("_fail", "_loop", "_owes_until", "_put_off", "_work", "is_behind")

    def __init__(self, work: TokenBucket, fail: Callable[[Exception], None]) -> None:
        self.is_behind = False  # whether its next request is to be put off
        self._work = work
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._owes_until = 0.0
        self._put_off: OrderedDict[Hashable, Callable[[], None]] = OrderedDict()

    @property
    def seconds_owed(self) -> float:
        """How long until the host has done no more for this worker than it does for any."""
        return self._owes_until - self._loop.time()

    def charge(self, values: int) -> None:
        """Charge this number of values, read or written for the worker."""
        now = self._loop.time()
        owed = self._work.owe(now, values)
        self._owes_until = now + owed
        if owed and not self.is_behind:
            self.is_behind = True
            self._look_later()

    def put_off(self, request: Hashable, dispatch: Callable[[], None]) -> None:
        """Keep a request until the worker is out of debt and the requests before it were admitted."""
        self._put_off[request] = dispatch

    def give_up(self, request: Hashable) -> None:
        """Keep a request that was put off no longer: what it takes does not count among the worker's any more."""
        self._put_off.pop(request, None)

    def forget(self) -> None:
        """Admit none of the requests: the worker is gone."""
        self._put_off.clear()

    def _look_later(self) -> None:
        self._loop.call_later(max(self.seconds_owed, _PAUSE), self._look)

    def _look(self) -> None:
        for _ in range(_ADMITTED_AT_ONCE):
            if self.seconds_owed > 0 or not self._put_off:
                break
            try:
                self._put_off.popitem(last=False)[1]()
            except Exception as exc:
                self._fail(exc)
                return
        if self._put_off or self.seconds_owed > 0:
            self._look_later()
        else:
            self.is_behind = False


def values_in(body: Buffer) -> int:
    """Return how many values the host reads or writes with a message; the count of a small message is an estimate.

    Raises:
        RemoteProtocolError: it is over a cap.
    """
    size = len(body)
    if size <= _SMALL_BYTES:
        return _VALUES_EACH + size // _GUESSED_BYTES
    return _VALUES_EACH + count_values(body) + size // _TEXT_BYTES
