"""A command on a terminal of a given size, and what that terminal shows."""

from __future__ import annotations

import codecs
import fcntl
import os
import select
import struct
import termios
import time

from integration.command_line import Terminal
from support.terminal_screen import TerminalScreen


class Seen(Terminal):
    """A command on a terminal of a given size, of which everything stays known that was ever written to it."""

    def __init__(self, columns: int, rows: int, *args: str) -> None:
        self._everything = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._size = (columns, rows)
        super().__init__(*args, environ={"COLUMNS": "", "LINES": ""})
        # Long before anything is asked.
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def rows(self, *, all_of_them: bool = False) -> list[str]:
        """Return the rows in view after what was waited for."""
        screen = TerminalScreen(*self._size)
        screen.feed(self._everything.removesuffix(self.shown))
        return screen.all_rows() if all_of_them else screen.rows()

    def _read(self) -> bool:
        left = self._deadline - time.monotonic()
        assert left > 0 and select.select([self._master], [], [], left)[0], f"nothing more came:\n{self.shown}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the last of those that had it open has closed it
            return False
        text = self._decoder.decode(data)
        self.shown += text
        self._everything += text
        return bool(data)
