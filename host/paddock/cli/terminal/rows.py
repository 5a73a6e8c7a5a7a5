"""Fold text into rows no wider than a terminal, so that Paddock chooses the beginning of every row.

A row that a terminal wraps by itself continues at the left edge, where a module could then write any text. Terminals
differ in the width of some characters; here each counts for the widest that any of them takes. Text is escaped before
it comes here.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_WIDE: Final = ("W", "F", "A")  # ambiguous ones are wide where the fonts are for Chinese, Japanese or Korean
_SINGLE: Final = ("Cc", "Cf", "Zs")  # escaped, or drawn as one cell at most
_EMOJI_STYLE: Final = "\ufe0f"  # makes the character before it a wide one
_SYMBOL_BLOCKS: Final = (0x2190, 0x2BFF)  # arrows to symbols: some are drawn as emoji, in two cells
_SUPPLEMENTARY: Final = 0x10000
_FEWEST_CELLS: Final = 1
_IN_BACKTICKS: Final = re.compile(r"`[^`]+`")
_SHELL_WORDS: Final = re.compile(r"""(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^ ])+""")
_KEPT: Final = "\ud800"  # a space that stays within its row; escaped text has no surrogates
_JOINT: Final = "\ud801"  # a space of a command, where a row may end with a backslash
_GOES_ON: Final = " \\"


def fold(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Return `text` in rows of at most `width` cells, the first behind `first`, all others behind `rest`.

    A word is broken only where it is wider than a row. There is always at least one row.
    """
    rows: list[str] = []
    lead = first
    for piece in _pieces(text, max(_FEWEST_CELLS, width - cells(first)), max(_FEWEST_CELLS, width - cells(rest))):
        rows.append(lead + piece)
        lead = rest
    return rows or [first]


def fold_with_commands(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Return rows as `fold` does, where people can copy what stands in backticks: it is broken only if no row holds it.

    A command of Paddock's that no row holds is broken between its arguments, with a backslash at the end of each row,
    so that a shell takes the pasted rows as one line.
    """
    room = width - cells(rest)
    parts: list[str] = []
    done = 0
    for found in _IN_BACKTICKS.finditer(text):
        start, end = found.span()
        before, after = text[done:start], text[end:].partition(" ")[0]
        around = cells(before.rpartition(" ")[2]) + cells(after.partition("`")[0])
        parts.append(before)
        if cells(found[0]) + around <= room:
            parts.append(found[0].replace(" ", _KEPT))
        elif found[0].startswith("paddock ", 1):
            parts.append(_jointed(found[0]))
        else:
            parts.append(found[0])
        done = end
    return _folded("".join([*parts, text[done:]]), width, first, rest)


def fold_command(command: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Return the rows of a line for a shell, which takes them as one: all but the last end with a backslash.

    A word that no row holds is cut, and then a shell does not: each row is indented.
    """
    return _folded(_jointed(command), width, first, rest)


def wrap(text: str, width: int, *, first: str = "", rest: str = "") -> list[str]:
    """Return `text` in rows for a file or pipe: words, and what stands in backticks, are broken nowhere."""
    kept = _IN_BACKTICKS.sub(lambda found: found[0].replace(" ", _KEPT), text)
    rows = textwrap.wrap(
        kept, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return [row.replace(_KEPT, " ") for row in rows]


def _jointed(command: str) -> str:
    """Return a line for a shell with its breakable spaces marked: those between its words."""
    words = (word[0].replace(" ", _KEPT) for word in _SHELL_WORDS.finditer(command))
    return _JOINT.join(words)


def _folded(text: str, width: int, first: str, rest: str) -> list[str]:
    return [row.replace(_KEPT, " ").replace(_JOINT, " ") for row in fold(text, width, first=first, rest=rest)]


def clip(text: str, width: int) -> str:
    """Return `text`, or as much of it as fits into `width` cells with a mark that it goes on."""
    if cells(text) <= width:
        return text
    return text[: _fitting(text, max(0, width - 2))] + ".."


def cells(text: str) -> int:
    """Return the most cells of a row that `text` takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@lru_cache(maxsize=4096)
def _cells(char: str) -> int:
    if char.isascii():
        return 1
    category = unicodedata.category(char)
    if category in _SINGLE:
        return 1
    is_symbol = _SYMBOL_BLOCKS[0] <= ord(char) <= _SYMBOL_BLOCKS[1]
    # A character unknown to this version of Unicode may be an emoji to the terminal.
    if category in ("Cn", "Co") or is_symbol or char == _EMOJI_STYLE or ord(char) >= _SUPPLEMENTARY:
        return 2
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1


def _pieces(text: str, first_width: int, width: int) -> Iterator[str]:
    room = first_width
    while text:
        end, mark = _fitting(text, room), ""
        if end < len(text):
            gap = text.rfind(" ", 0, end + 1)
            joint = text.rfind(_JOINT, 0, _fitting(text, max(0, room - len(_GOES_ON))) + 1)
            at = max(gap, joint)
            word = text[at + 1 : at + 2 + width].partition(" ")[0].partition(_JOINT)[0]
            # A first row may have less room than the others: a word that these hold leaves it empty.
            if cells(word) <= width and (text[: max(0, at)].strip(" ") or (at < 0 and room < width)):
                end, mark = max(0, at), _GOES_ON if joint > gap else ""
        if not (end or room < width):
            end = 1  # one character at least, or this would never end
        yield text[:end].rstrip(" ") + mark
        text = text[end:].lstrip(f" {_JOINT}" if mark else " ")
        room = width


def _fitting(text: str, width: int) -> int:
    """Return how many characters of `text` fit into `width` cells."""
    ahead = text[: width + 1]
    if ahead.isascii():
        return min(len(text), width)
    used = 0
    for index, char in enumerate(ahead):
        used += _cells(char)
        if used > width:
            return index
    return len(ahead)
