"""Read lines that a person types at a terminal, without any text typed before it was asked for.

Text that was typed early, or pasted as several lines, answers no question. The terminal keeps its own line editing: a
line arrives when Enter is pressed. A terminal that is gone reads as the end of the input.
"""

from __future__ import annotations

import asyncio
import os
import select
import termios
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TextIO

import anyio

_DEBOUNCE: Final = 0.5  # seconds in which a person cannot have read anything yet
_BURST: Final = 0.05  # seconds in which no person types two lines, and a paste arrives completely
_MAX_BYTES: Final = 4096  # the longest line that a terminal delivers
_ECHO_FLAGS: Final = 3  # where a terminal's attributes hold whether it echoes


class Keyboard:
    """The keyboard of `terminal`; `clock` is a monotonic one, and `pause` waits for seconds of it."""

    def __init__(
        self,
        terminal: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._terminal = terminal
        self._clock = clock
        self._pause = pause
        self._coming: asyncio.Future[bool] | None = None
        self.is_closed = False

    @property
    def is_there(self) -> bool:
        """Whether a person can type."""
        return not self._terminal.closed and self._terminal.isatty()

    def close(self) -> None:
        """Let the line that is awaited, and every later one, be the end of the input."""
        self.is_closed = True
        if self._coming is not None and not self._coming.done():
            self._coming.set_result(False)

    def reopen(self) -> None:
        """Read lines again, after `close`."""
        self.is_closed = False

    async def forget(self) -> None:
        """Return once everything typed until now, and for half a second longer, is dropped."""
        until = self._clock() + _DEBOUNCE
        try:
            saved = termios.tcgetattr(self._terminal)
        except termios.error:
            return
        silent = [*saved]
        silent[_ECHO_FLAGS] = saved[_ECHO_FLAGS] & ~termios.ECHO  # text that does not count is not shown either
        try:
            _set(self._terminal, silent)
            while not self.is_closed and (left := until - self._clock()) > 0:
                await self._pause(left)
        finally:
            _set(self._terminal, saved)

    async def line(self) -> str | None:
        """Return the next line without its end, None at the end of the input; several at once come as one text."""
        typed = b""
        while not self.is_closed:
            if not await self._has_come():
                return None
            await self._pause(_BURST)
            read = b"" if self.is_closed else self._read()
            if not read:
                return None
            typed = (typed + read)[-_MAX_BYTES:]
            if typed.endswith(b"\n"):
                return typed.decode(errors="replace")[:-1]
        return None

    async def _has_come(self) -> bool:
        """Return whether input arrived before the keyboard was closed."""
        loop = asyncio.get_running_loop()
        coming: asyncio.Future[bool] = loop.create_future()
        self._coming = coming
        descriptor = self._terminal.fileno()
        loop.add_reader(descriptor, _tell, coming)
        try:
            return await coming
        finally:
            loop.remove_reader(descriptor)
            self._coming = None

    def _read(self) -> bytes:
        """Return all available input; the last item is the end of the input, if it was reached."""
        read = b""
        descriptor = self._terminal.fileno()
        waiting = select.poll()  # not `select`, whose descriptors end at 1024
        waiting.register(descriptor, select.POLLIN)
        while len(read) < _MAX_BYTES and waiting.poll(0):
            try:
                more = os.read(descriptor, _MAX_BYTES)
            except OSError:  # the terminal is gone
                more = b""
            if not more:
                return b""
            read += more
        return read


def _tell(coming: asyncio.Future[bool]) -> None:
    if not coming.done():
        coming.set_result(True)


def _set(terminal: TextIO, attributes: list[Any]) -> None:
    """Set the terminal's attributes and drop what was typed and not read yet, a line without its end included."""
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        termios.tcflush(terminal, termios.TCIFLUSH)
    except termios.error:  # the terminal is gone, which the next read reports
        return
