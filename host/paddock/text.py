"""Make text from modules, plans and file names safe to show, and word the system's reasons for a refusal.

`escape` leaves no character in a text that could move a cursor, or hide, reorder or forge other text on a terminal or
in a log line. It is idempotent, never fails, and leaves every visible character as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MAX_TRACEBACK_LINES = 60  # a traceback names the failure at its end; a module may raise from any depth
_MAX_LINE_CHARACTERS = 500

_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1 controls: ESC, CSI, OSC and the ends of lines among them
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # letters and marks that show nothing
    "\u061c\u200b-\u200f\u202a-\u202e\u2066-\u2069"  # zero width, and the bidirectional controls
    "\u2028\u2029"  # line and paragraph separators
    "\u2060-\u2065\u206a-\u206f\ufe00-\ufe0d\ufeff\ufff0-\ufffb"  # joiners and formats; not \ufe0f, emoji need it
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # invisible shorthand and musical formats
    "\U000e0000-\U000e0fff"  # tags and variation selectors, able to carry a whole hidden text
    "\ud800-\udfff"  # lone surrogates: no encoder writes them
    "]"
)
_UNSAFE_IN_LINES = re.compile(f"(?![\n\t]){_UNSAFE.pattern}")


def escape(text: str, *, multiline: bool = False) -> str:
    r"""Return `text` with every unsafe character written as `\x1b`, `\u202e` and the like.

    With `multiline`, newline and tab stay as they are.
    """
    return (_UNSAFE_IN_LINES if multiline else _UNSAFE).sub(_visible, text)


def escaped_line(line: str) -> str:
    """Return the beginning of a line, escaped: a hostile one may be megabytes long, and escaping makes it longer."""
    return escape(line if len(line) <= _MAX_LINE_CHARACTERS else line[:_MAX_LINE_CHARACTERS] + "…")


def hinted(summary: str, detail: Iterable[str], hints: Iterable[str]) -> str:
    """Return the lines of an error: what happened, more about it, and behind an empty line what to do; escaped."""
    told = [f"hint: {escaped_line(hint)}" for hint in hints]
    lines = [escaped_line(summary), *(f"  {escaped_line(line)}" for line in detail)]
    return "\n".join([*lines, "", *told] if told else lines)


def last_lines(traceback: str) -> list[str]:
    """Return the last lines of a traceback, which say most, and how many were left out."""
    lines = traceback.rstrip().split("\n") if traceback.strip() else []
    left_out = len(lines) - _MAX_TRACEBACK_LINES
    return [f"… {left_out} lines left out", *lines[left_out:]] if left_out > 0 else lines


def reason_of(error: Exception) -> str:
    """Return the reason for which the system, or a parser, refused something, as the end of a sentence."""
    said = error.strerror if isinstance(error, OSError) else None
    return (said or str(error)).lower()


def _visible(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
