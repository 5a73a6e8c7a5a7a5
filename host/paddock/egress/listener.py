"""Accept a module's connections: no faster than a budget, and no more at once than there is room for.

A connection that is not accepted yet waits in the kernel's queue, which is bounded, and costs nothing here meanwhile.
If no connection ends for a time while there is no room, the waiting ones are refused with an answer.

Each connection is a task of the listener's, which holds its socket as well: when the task has ended, whether it ever
began or not, the socket is closed. Only `end_connections` waits for these tasks, for a bounded time.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from paddock.egress.limits import EgressLimits
from paddock.egress.stream import reset
from paddock.token_bucket import TokenBucket

_ACCEPTED_AT_ONCE: Final = 16  # for one wake-up
_SENT_AWAY_AT_ONCE: Final = 256
_END_SECONDS: Final = 5.0  # for a connection that is ended; it only has to give up its wait
_PAUSE_SECONDS: Final = 1.0  # when the host itself has no descriptors left
_OUT_OF_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Listeners, which it owns; `serve` takes over a connection, `send_away` one that there is no room for."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        bounds: EgressLimits,
        serve: Callable[[socket.socket], Coroutine[Any, Any, None]],
        reject: Callable[[socket.socket], None],
    ) -> None:
        self._listeners = tuple(listeners)
        self._bounds = bounds
        self._serve = serve
        self._reject = reject
        self._budget = TokenBucket(bounds.accepts_per_second, bounds.accepts_at_once)
        self._connections: dict[asyncio.Task[None], socket.socket] = {}
        self._loop = asyncio.get_running_loop()
        self._is_reading = False
        self._is_closed = False
        self._pause: asyncio.TimerHandle | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._read()

    async def end_connections(self) -> None:
        """End the accepted connections and wait for that; report and cut off those that take too long."""
        ending = tuple(self._connections)
        for task in ending:
            task.cancel()
        if not ending:
            return
        _, overdue = await asyncio.wait(ending, timeout=_END_SECONDS)
        for task in overdue:
            with suppress(OSError):  # not closed: the loop may still look at it
                self._connections[task].shutdown(socket.SHUT_RDWR)
            self._loop.call_exception_handler({"message": "a connection does not end", "task": task})

    async def close(self) -> None:
        """Accept nothing more, and end the accepted connections."""
        self._is_closed = True
        self._stop_reading()
        for timer in (self._pause, self._patience):
            if timer is not None:
                timer.cancel()
        for listener in self._listeners:
            listener.close()
        await self.end_connections()

    # -- when to accept ------------------------------------------------------------------------

    def _read(self) -> None:
        self._pause = None
        if not self._is_reading and not self._is_closed and not self._is_full:
            self._is_reading = True
            for listener in self._listeners:
                self._loop.add_reader(listener, self._accept, listener)

    def _stop_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            for listener in self._listeners:
                self._loop.remove_reader(listener)

    @property
    def _is_full(self) -> bool:
        return len(self._connections) >= self._bounds.connections

    def _wait(self, seconds: float) -> None:
        self._stop_reading()
        if self._pause is None:
            self._pause = self._loop.call_later(seconds, self._read)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._is_full:
                self._stop_reading()
                self._patience = self._loop.call_later(self._bounds.waiting_seconds, self._reject_waiting)
                return
            if wait := self._budget.wait(self._loop.time()):
                self._wait(wait)
                return
            accepted = self._accepted(listener)
            if accepted is None:
                return
            self._budget.take()
            task = self._loop.create_task(self._serve(accepted))
            self._connections[task] = accepted
            task.add_done_callback(self._has_ended)

    def _accepted(self, listener: socket.socket) -> socket.socket | None:
        try:
            accepted, _ = listener.accept()
        except OSError as error:
            if error.errno in _OUT_OF_ROOM:
                self._wait(_PAUSE_SECONDS)
            return None  # no client is there, or no longer
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        return accepted

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        reset(self._connections.pop(task))  # one that was cancelled before its first step had no time to
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._pause is None:
            self._read()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._loop.call_exception_handler({"message": "a connection ended in an error", "exception": error})

    def _reject_waiting(self) -> None:
        """Refuse the waiting connections, as none has ended for so long; new ones may come and wait."""
        self._patience = None
        for listener in self._listeners:
            for _ in range(_SENT_AWAY_AT_ONCE):
                accepted = self._accepted(listener)
                if accepted is None:
                    break
                self._reject(accepted)
        self._patience = self._loop.call_later(self._bounds.waiting_seconds, self._reject_waiting)
