"""Name the calling process, for people who look at `ps`, `top` or `/proc`.

Nothing may be decided by a title: a process can name itself anew at any time. It takes the place of the arguments that
the interpreter was started with, whose memory every fork inherits; it is cut to their length.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

from paddock_sandbox import prctl

_SHOWN: Final = bytes(byte if ord(" ") <= byte <= ord("~") else ord("?") for byte in range(256))
_ARGUMENTS: Final = b"".join(os.fsencode(argument) + b"\0" for argument in sys.orig_argv)


def _address() -> int:
    """Return where the arguments lie; 0 where they cannot be found."""
    try:
        found = ctypes.c_void_p.in_dll(ctypes.PyDLL(None), "program_invocation_name").value or 0
    except ValueError:  # another C library
        return 0
    first, _, _ = _ARGUMENTS.partition(b"\0")
    if not found or ctypes.string_at(found) != first or ctypes.string_at(found, len(_ARGUMENTS)) != _ARGUMENTS:
        return 0
    return found


_AT: Final = _address()


def set_title(title: str, name: str) -> None:
    """Show `title`, behind `paddock: `, as the command line, and the first 15 bytes of `name` as its short name."""
    prctl.set_name(_plain(name))
    if _AT:
        room = len(_ARGUMENTS) - 2
        shown = (b"paddock: " + _plain(title))[:room]
        # A last byte that is no NUL tells the kernel to show what is before the first one, and nothing after it.
        ctypes.memmove(_AT, shown.ljust(room + 1, b"\0") + b".", len(_ARGUMENTS))


def _plain(text: str) -> bytes:
    return text.encode("ascii", "replace").translate(_SHOWN)
