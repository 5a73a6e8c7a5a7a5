"""A person at a terminal, within the test's own process: a real pseudo-terminal, what it shows, and the time there."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import struct
import termios
from typing import TextIO

import anyio
import anyio.lowlevel

from support.terminal_screen import TerminalScreen


class Clock:
    """A monotonic clock that stands still, unless somebody waits on it: then it is at once as late as they want it.

    While it `is_held`, whoever waits does so until it is no more.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.is_held = False

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        await anyio.lowlevel.checkpoint()
        while self.is_held:
            await anyio.sleep(0.002)
        self.now += seconds


class Person:
    """Somebody who sees what is written to `output` and types what is read from `keys`."""

    def __init__(self, columns: int = 80, rows: int = 24, *, wide_ambiguous: bool = False) -> None:
        self.clock = Clock()
        self.seen = ""
        self._screen = TerminalScreen(columns, rows, wide_ambiguous=wide_ambiguous)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.set_blocking(self._master, False)
        self.keys: TextIO = open(slave, encoding="utf-8", closefd=False)
        self.output: TextIO = open(slave, "w", encoding="utf-8", errors="backslashreplace")

    def close(self) -> None:
        """Leave the terminal to nobody."""
        self.keys.close()
        with contextlib.suppress(OSError):  # where the terminal is gone
            self.output.close()
        if self._master >= 0:
            self.hang_up()

    def hang_up(self) -> None:
        """Take the terminal away, as the end of a connection does."""
        os.close(self._master)
        self._master = -1

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def rows(self) -> list[str]:
        """Return the rows that are in view now."""
        self._look()
        return self._screen.rows()

    def all_rows(self) -> list[str]:
        """Return these and the rows that went out of view before them."""
        self._look()
        return self._screen.all_rows()

    async def until(self, text: str, *, times: int = 1) -> None:
        """Return once a text is in view, or was written so often."""
        while sum(text in row for row in self.rows()) < 1 or self.seen.count(text) < times:
            await anyio.sleep(0.002)

    def _look(self) -> None:
        try:
            while data := os.read(self._master, 65536):
                text = self._decoder.decode(data)
                self.seen += text
                self._screen.feed(text)
        except BlockingIOError:
            return
