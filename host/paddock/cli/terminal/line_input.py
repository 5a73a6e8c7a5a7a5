"""Read lines: those that a person types at a terminal, and those of a pipe or a file. No command reads them otherwise.

The line in which a chat's prompts are edited is prompt_toolkit's (`chat/prompt_input.py`). A read can be cancelled at
any moment, and nothing of the input is lost by that: no thread reads.
"""

from __future__ import annotations

import os
import select
import termios
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TextIO

import anyio
import anyio.lowlevel

_DEBOUNCE: Final = 0.5  # seconds in which a person cannot have read anything yet
_BURST: Final = 0.05  # seconds in which no person types two lines, and a paste arrives completely
_MAX_BYTES: Final = 4096  # the longest line that a terminal delivers
_CHUNK: Final = 65536  # bytes of a pipe that are read at once
_ECHO_FLAGS: Final = 3  # where a terminal's attributes hold whether it echoes


async def _readable(descriptor: int) -> None:
    """Wait until a descriptor can be read."""
    try:
        await anyio.wait_readable(descriptor)
    except PermissionError:  # a file, or /dev/null, which can be read at any time
        await anyio.lowlevel.checkpoint()


class Keyboard:
    """The keyboard of `terminal`; `clock` is a monotonic one, and `pause` waits for seconds of it.

    Text that was typed early, or pasted as several lines, answers no question. The terminal keeps its own line editing:
    a line arrives when Enter is pressed. A terminal that is gone reads as the end of the input.
    """

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
        self.is_closed = False  # whether every line is the end of the input
        self._waiting: anyio.CancelScope | None = None

    @property
    def is_there(self) -> bool:
        """Whether a person can type."""
        return not self._terminal.closed and self._terminal.isatty()

    def close(self) -> None:
        """Let the line that is awaited, and every later one, be the end of the input."""
        self.is_closed = True
        if self._waiting is not None:
            self._waiting.cancel()

    @asynccontextmanager
    async def muted(self) -> AsyncIterator[None]:
        """Show nothing that is typed in the block, and drop all that is typed before its end; lasts half a second."""
        until = self._clock() + _DEBOUNCE
        try:
            saved = termios.tcgetattr(self._terminal)
        except termios.error:  # the terminal is gone, which the next read reports
            yield
            return
        silent = [*saved]
        silent[_ECHO_FLAGS] = saved[_ECHO_FLAGS] & ~termios.ECHO
        try:
            _set(self._terminal, silent)
            yield
            while not self.is_closed and (left := until - self._clock()) > 0:
                await self._pause(left)
        finally:
            _set(self._terminal, saved)

    async def line(self) -> str | None:
        """Return the next line without its end, None at the end of the input; several at once come as one text."""
        typed = b""
        while not self.is_closed:
            with anyio.CancelScope() as self._waiting:
                await _readable(self._terminal.fileno())
            if self._waiting.cancel_called:
                return None
            await self._pause(_BURST)
            read = b"" if self.is_closed else self._read()
            if not read:
                return None
            typed = (typed + read)[-_MAX_BYTES:]
            if typed.endswith(b"\n"):
                return typed.decode(errors="replace")[:-1]
        return None

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


class PipedLines:
    """The lines of a descriptor that is no terminal, each as soon as it is complete."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._begun: list[bytes] = []
        self._ready: deque[bytes] = deque()
        self._is_over = False

    async def line(self) -> str | None:
        """Return the next line without its end, None at the end of the input; U+FFFD is where it is not UTF-8."""
        while not self._ready and not self._is_over:
            await _readable(self._descriptor)
            data = os.read(self._descriptor, _CHUNK)
            *ended, rest = data.split(b"\n")
            for line in ended:
                self._ready.append(b"".join([*self._begun, line]))
                self._begun.clear()
            self._begun.append(rest)
            if not data:  # the end of the input
                self._is_over = True
                self._ready.append(b"".join(self._begun))
        if not self._ready:
            return None
        return self._ready.popleft().decode("utf-8", "replace").removeprefix("\ufeff").removesuffix("\r")


def _set(terminal: TextIO, attributes: list[Any]) -> None:
    """Set the terminal's attributes and drop what was typed and not read yet, a line without its end included."""
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        termios.tcflush(terminal, termios.TCIFLUSH)
    except termios.error:  # the terminal is gone, which the next read reports
        return
