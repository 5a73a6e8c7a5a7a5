"""Switch a terminal between what is typed ahead while an answer comes, and what is typed to answer a question.

Without echo, text typed ahead only shows in the next line, and each key keeps its meaning for that: Enter sends it, and
Ctrl-D in an empty one leaves.
"""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

_INPUT, _LOCAL, _KEYS = 0, 3, 6  # indices in a terminal's attributes: the flag for Enter, that for echo, special keys
_END: Final = b"\x04"  # Ctrl-D, as the line takes it too


@contextmanager
def echo(terminal: TextIO, *, wanted: bool) -> Iterator[None]:
    """Switch the echo of `terminal` on or off while this is entered; do nothing if it is no terminal.

    Without echo, Enter is not translated to a line end, nor Ctrl-D to the end of the input: both wait for the line.
    """
    try:
        saved = termios.tcgetattr(terminal)
    except (termios.error, ValueError):
        yield
        return
    changed = [*saved]
    for at, flag in ((_INPUT, termios.ICRNL), (_LOCAL, termios.ECHO)):
        changed[at] = saved[at] | flag if wanted else saved[at] & ~flag
    changed[_KEYS] = [*saved[_KEYS]]
    changed[_KEYS][termios.VEOF] = _END if wanted else os.fpathconf(terminal.fileno(), "PC_VDISABLE").to_bytes()
    try:
        termios.tcsetattr(terminal, termios.TCSANOW, changed)
        yield
    finally:
        with suppress(termios.error, ValueError):  # where the terminal is gone
            termios.tcsetattr(terminal, termios.TCSANOW, saved)
