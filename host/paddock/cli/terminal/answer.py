"""Write a module's text to stdout: as it is for programs, escaped for a terminal; masked for both.

On a terminal it is the last thing a command writes: there is no question any more that it could imitate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from paddock.text import escape


def print_answer(text: str, mask: Callable[[str], str] = str) -> None:
    """Write `text`, in which `mask` hides what nobody is to read, and a newline."""
    shown = mask(text)
    sys.stdout.write((escape(shown, multiline=True) if sys.stdout.isatty() else shown) + "\n")
    sys.stdout.flush()
