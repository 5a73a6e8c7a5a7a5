"""Find the line of each part of a file, or of several that were put together, by the spelling that problems use.

`tools[0].limits.memory_max` is looked up as deep as the file goes: a missing part gets the line of the part that would
contain it. The lines are computed when the first of them is asked for, which most plans never are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

_PLAIN_PART: Final = re.compile(r"\.?([A-Za-z_][\w-]*)(?=[.\[]|$)", re.ASCII)
_INDEX_PART: Final = re.compile(r"\[([0-9]{1,9})\]")
_QUOTE: Final = '["'
_QUOTED_END: Final = re.compile(r'"\]')
_BARE_END: Final = re.compile(r"(?=[.\[]|$)")  # of the first part, which is never quoted


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file, or all of it."""

    file: str
    line: int | None = None

    @property
    def text(self) -> str:
        """Return it in the form of editors and terminals: `plan.yaml:12`."""
        return f"{self.file}:{self.line}" if self.line is not None else self.file


@dataclass(slots=True)
class SourceNode:
    """One value of a file: the line it starts on, and those inside it by key or index.

    `file` is empty where it is that of the whole map.
    """

    line: int
    parts: dict[str | int, SourceNode] = field(default_factory=dict)
    file: str = ""


class Positions:
    """The lines of one file, called `file` in messages; `find` returns all of its parts, which other files may have."""

    def __init__(self, file: str, find: Callable[[], SourceNode] | None = None) -> None:
        self.file = file
        self.has_lines = find is not None
        self._find = find

    def line_of(self, path: str) -> int | None:
        """Return the line of the place `path`, or of the innermost existing part around it."""
        return self.spot_of(path)[1]

    def spot_of(self, path: str) -> tuple[str, int | None]:
        """Return the file and the line of the place `path`; the file is empty where it is that of the whole map."""
        root = self._root
        parts = [] if root is None else [*_descend(root, path)]
        return (parts[-1].file, parts[-1].line) if parts else ("", None)

    def place_of(self, path: str) -> Location:
        """Return the place `path` for people; the file alone, where nothing of it exists."""
        file, line = self.spot_of(path)
        return Location(file or self.file, line)

    @property
    def root(self) -> SourceNode:
        """The lines of the whole file."""
        return self._root or SourceNode(1)

    @cached_property
    def _root(self) -> SourceNode | None:
        find, self._find = self._find, None  # this reference keeps the whole text in memory
        try:
            return find() if find is not None else None
        except RecursionError:  # nested deeper than the line reader, which works differently, can follow
            return None


def _descend(part: SourceNode, path: str) -> Iterator[SourceNode]:
    """Yield the parts on the way to `path`, the outermost first."""
    at = 0
    while at < len(path):
        found = _next_part(part, path, at)
        if found is None:
            return
        part, at = found
        yield part


def _next_part(part: SourceNode, path: str, at: int) -> tuple[SourceNode, int] | None:
    plain = _PLAIN_PART.match(path, at)
    if plain is not None and plain[1] in part.parts:
        return part.parts[plain[1]], plain.end()
    index = _INDEX_PART.match(path, at)
    if index is not None and int(index[1]) in part.parts:
        return part.parts[int(index[1])], index.end()
    quoted = path.startswith(_QUOTE, at)
    start = at + len(_QUOTE) if quoted else at
    # A key may contain any character, also one that ends a key: the first end that gives a known key is right.
    for end in (_QUOTED_END if quoted else _BARE_END).finditer(path, start):
        if path[start : end.start()] in part.parts:
            return part.parts[path[start : end.start()]], end.end() if quoted else end.start()
    return None
