"""Switch the echo of a terminal: off while an answer comes, so that text typed ahead only shows in the next line."""

from __future__ import annotations

import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_INPUT, _LOCAL = 0, 3  # indices in a terminal's attributes: of the flag for Enter, and of the flag for echo


@contextmanager
def echo(terminal: TextIO, *, wanted: bool) -> Iterator[None]:
    """Switch the echo of `terminal` on or off while this is entered; do nothing if it is no terminal.

    Without echo, Enter is not translated to a line end either, so that it still sends a line that was typed ahead.
    """
    try:
        saved = termios.tcgetattr(terminal)
    except (termios.error, ValueError):
        yield
        return
    changed = [*saved]
    for at, flag in ((_INPUT, termios.ICRNL), (_LOCAL, termios.ECHO)):
        changed[at] = saved[at] | flag if wanted else saved[at] & ~flag
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
        yield
    finally:
        with suppress(termios.error, ValueError):  # where the terminal is gone
            termios.tcsetattr(terminal, termios.TCSANOW, saved)
