"""Cut a text that comes in pieces into blocks of markdown that are complete, and the one that is still open.

A block is final once it is returned: nothing that comes later changes how it is shown. Each character is looked at a
bounded number of times, however long the text is; blocks have a largest size, so that showing the open one has a
bounded cost as well. Lines of a code fence are final one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

_MAX_BLOCK: Final = 4000  # characters; a block ends where a line or a word does, before it has more
_FENCE: Final = re.compile(r"( {0,8})(`{3,}+|~{3,}+)[^`]*+")  # possessive: a line of marks takes linear time
_HEADING: Final = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM: Final = re.compile(r"\s*([-*+]|\d{1,9}[.)])\s")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the text: markdown, or one line of code. `begins` if a blank line goes before it."""

    kind: Literal["markdown", "code"]
    text: str
    begins: bool = True


class MarkdownStream:
    """The blocks of one text."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # of the open block, complete ones
        self._line = ""  # that has not ended
        self._size = 0  # of `_lines`, with their ends
        self._fence: tuple[str, int] | None = None  # mark and indentation of the open code
        self.is_begun = False  # whether lines of the open code were returned
        self._has_gap = False  # whether blank lines came after the open block, which is a list

    @property
    def open(self) -> str:
        """The text of the open block, with the line ends of the input."""
        return "\n".join([*self._lines, self._line]) if self._lines else self._line

    @property
    def is_code(self) -> bool:
        """Whether the open block is a line of code."""
        return self._fence is not None

    def feed(self, text: str) -> list[Block]:
        """Take a piece, and return the blocks that it completes."""
        found: list[Block] = []
        first, *rest = text.split("\n")
        self._line += first
        for line in rest:
            self._end_line(self._cut(self._line, found).removesuffix("\r"), found)
            self._line = line
        self._line = self._cut(self._line, found)
        return found

    def end(self) -> list[Block]:
        """Return the remaining blocks; the next piece begins another text."""
        found: list[Block] = []
        if self._line:
            self._end_line(self._line, found)
            self._line = ""
        self._close(found)
        self._fence, self.is_begun = None, False
        return found

    def _cut(self, line: str, found: list[Block]) -> str:
        """Make blocks of a line that is too long, and return the rest of it."""
        start = 0
        while len(line) - start > _MAX_BLOCK:
            end = line.rfind(" ", start + _MAX_BLOCK // 2, start + _MAX_BLOCK) + 1 or start + _MAX_BLOCK
            if self._fence is not None:
                self._code(line[start:end], found)
            else:
                self._close(found)
                found.append(Block("markdown", line[start:end]))
            start = end
        return line[start:]

    def _end_line(self, line: str, found: list[Block]) -> None:
        if self._fence is not None:
            mark, indent = self._fence
            stripped = line.strip()
            if len(stripped) >= len(mark) and not stripped.strip(mark[0]):
                self._fence = None
            else:
                lead = len(line) - len(line.lstrip(" "))
                self._code(line[min(lead, indent) :], found)
            return
        fence = _FENCE.fullmatch(line)
        if fence is not None:
            self._close(found)
            self._fence, self.is_begun = (fence[2], len(fence[1])), False
        elif not line.strip():
            if self._lines and _ITEM.match(self._lines[0]):
                self._has_gap = True
            else:
                self._close(found)
        elif _HEADING.match(line):
            self._close(found)
            found.append(Block("markdown", line))
        else:
            is_after_list = self._has_gap and not (line[:1].isspace() or _ITEM.match(line))
            if is_after_list or self._size + self._has_gap + len(line) > _MAX_BLOCK:
                self._close(found)
            if self._has_gap:
                self._lines.append("")
                self._size += 1
                self._has_gap = False
            self._lines.append(line)
            self._size += len(line) + 1

    def _code(self, line: str, found: list[Block]) -> None:
        found.append(Block("code", line, begins=not self.is_begun))
        self.is_begun = True

    def _close(self, found: list[Block]) -> None:
        if self._lines:
            found.append(Block("markdown", "\n".join(self._lines)))
        self._lines.clear()
        self._size = 0
        self._has_gap = False
