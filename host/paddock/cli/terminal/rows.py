"""Fold text into rows no wider than a terminal, so that Paddock chooses the beginning of every row.

A row that a terminal wraps by itself continues at the left edge, where a module could then write any text. Terminals
differ in the width of some characters; here each counts for the widest that any of them takes. Text is escaped before
it comes here.
"""

from __future__ import annotations

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
        end = _fitting(text, room)
        if end < len(text):
            gap = text.rfind(" ", 0, end + 1)
            word = text[gap + 1 : gap + 2 + width].partition(" ")[0]
            if text[:gap].strip(" ") and cells(word) <= width:
                end = gap
        end = max(1, end)  # one character at least, or this would never end
        yield text[:end].rstrip(" ")
        text = text[end:].lstrip(" ")
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
