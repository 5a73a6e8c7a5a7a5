"""Have a terminal show what is typed, or keep it: what is typed while an answer comes is for the line after it."""

from __future__ import annotations

import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

_INPUT, _LOCAL = 0, 3  # where a terminal's attributes hold what becomes of Enter, and whether it echoes


@contextmanager
def echo(terminal: TextIO, *, wanted: bool) -> Iterator[None]:
    """Have `terminal` echo or not, as long as this is entered; on what is no terminal this does nothing.

    Where it does not, Enter stays what it is, so that a line that was typed ahead is sent by it later on.
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
