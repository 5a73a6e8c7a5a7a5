"""What a terminal shows of what was written to it: rows of cells, and no more of a terminal than Paddock's output uses.

Knows the end of a line, the return to its start, wrapping at the right edge, scrolling, and of escape sequences
colours, the erasing of a row or of all below the cursor, and the ways of the cursor; any other is an error, since
Paddock writes none on purpose and passes none on.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_TOKEN: Final = re.compile(r"\x1b\[(?P<sequence>[0-9;?]*[A-Za-z])|(?P<char>[\s\S])")
_BEGUN: Final = re.compile(r"\x1b(?:\[[0-9;?]*)?\Z")  # an escape sequence, the rest of which has yet to come
# Colours, whether the cursor is seen, blinks and wraps, and what keys and pastes send.
_IGNORED: Final = re.compile(r"[0-9;]*m|\?(?:1|7|12|25|2004)[lh]")
_WAY: Final = re.compile(r"([0-9]*)([ABCD])")
_FILLER: Final = ""  # the second cell of a wide character


class TerminalScreen:
    """A terminal; with `wide_ambiguous`, one whose fonts are for Chinese, Japanese or Korean."""

    def __init__(self, columns: int, rows: int, *, wide_ambiguous: bool = False) -> None:
        self._columns = columns
        self._count = rows
        self._wide = "WFA" if wide_ambiguous else "WF"
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._begun = ""

    def feed(self, text: str) -> None:
        """Take what is written to the terminal, in pieces of any size."""
        text = self._begun + text
        begun = _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        text = text.removesuffix(self._begun)
        for token in _TOKEN.finditer(text):
            char, sequence = token["char"], token["sequence"]
            if sequence is not None:
                self._obey(sequence)
            elif char == "\n":
                self._next_row()  # and to its start, as the terminal's driver sees to
            elif char == "\r":
                self._column = 0
            elif char == "\b":
                self._column = max(0, self._column - 1)
            elif char == "\x07":
                continue
            else:
                assert unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp"), f"wrote {char!r}"
                self._put(char)

    def rows(self) -> list[str]:
        """Return the rows in view, from the top one."""
        return ["".join(row).rstrip() for row in self._rows[-self._count :]]

    def all_rows(self) -> list[str]:
        """Return these and the rows that went out of view before them."""
        return ["".join(row).rstrip() for row in self._rows]

    def _obey(self, sequence: str) -> None:
        if sequence in ("K", "0K"):
            del self._rows[self._row][self._column :]
        elif sequence == "2K":
            self._rows[self._row].clear()
        elif sequence in ("J", "0J"):
            del self._rows[self._row][self._column :]
            del self._rows[self._row + 1 :]
        elif (way := _WAY.fullmatch(sequence)) is not None:
            self._go(int(way[1] or "1"), way[2])
        else:
            assert _IGNORED.fullmatch(sequence), f"sent {sequence!r}"

    def _go(self, count: int, way: str) -> None:
        match way:
            case "A":
                self._row = max(0, self._row - count)
            case "B":
                self._row = min(len(self._rows) - 1, self._row + count)
            case "C":
                self._column = min(self._columns - 1, self._column + count)
            case "D":
                self._column = max(0, self._column - count)

    def _put(self, char: str) -> None:
        if unicodedata.combining(char) or char == "\ufe0f":
            return
        cells = 2 if unicodedata.east_asian_width(char) in self._wide else 1
        if self._column + cells > self._columns:
            self._next_row()
        row = self._rows[self._row]
        row.extend(" " for _ in range(self._column - len(row)))
        row[self._column : self._column + cells] = [char] + [_FILLER] * (cells - 1)
        self._column += cells

    def _next_row(self) -> None:
        self._row += 1
        self._column = 0
        if self._row == len(self._rows):
            self._rows.append([])
