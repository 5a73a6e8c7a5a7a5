"""Write a module's text to stdout: as it is for programs, escaped for a terminal."""

from __future__ import annotations

import sys

from paddock.text import escape


def print_answer(text: str) -> None:
    """Write `text` and a newline."""
    sys.stdout.write((escape(text, multiline=True) if sys.stdout.isatty() else text) + "\n")
    sys.stdout.flush()
