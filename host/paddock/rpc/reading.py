"""Notice a worker that leaves its messages unread.

A timer looks every few seconds, and stops while everything was read. The kernel counts unread data as the memory it
takes. So a worker counts as reading once that memory grew by less than the least that the data written meanwhile takes.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import Callable
from typing import Final

LOOKS: Final = 12  # in the time after which a worker that reads nothing is reported
_LEAST_OF_A_WRITE: Final = 512  # bytes that the kernel takes for one, besides what is in it


class ReadingWatch:
    """Call `on_idle` when nothing of `transport` was read for `seconds`, unless `is_excused` was true meanwhile."""

    def __init__(
        self, transport: asyncio.Transport, seconds: float, is_excused: Callable[[], bool], on_idle: Callable[[], None]
    ) -> None:
        self.is_on = False
        self._transport = transport
        self._interval = seconds / LOOKS
        self._is_excused = is_excused
        self._on_idle = on_idle
        self._socket = transport.get_extra_info("socket")
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._written = 0
        self._seen = (0, 0)
        self._idle_looks = 0

    def note(self, size: int) -> None:
        """Take note that so many bytes were written."""
        self._written += size + _LEAST_OF_A_WRITE
        if not self.is_on:
            self.is_on = True
            self._idle_looks = 0
            self._look_later()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._look)

    def _look(self) -> None:
        buffered = self._transport.get_write_buffer_size()
        held = self._held()
        if not held and not buffered:
            self.is_on = False
            return
        passed = self._written - buffered
        has_read = held - self._seen[0] < passed - self._seen[1]
        self._seen = (held, passed)
        self._idle_looks = 0 if has_read or self._is_excused() else self._idle_looks + 1
        if self._idle_looks >= LOOKS:
            self.is_on = False
            self._on_idle()
        else:
            self._look_later()

    def _held(self) -> int:
        """Return the memory that the kernel holds for data that the worker has not read."""
        try:
            answer = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:  # a kernel that does not report it; then only the data it has not taken counts
            return 0
        return int(struct.unpack("i", answer)[0])
