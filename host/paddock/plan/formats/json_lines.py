"""Find the line of each part of a valid JSON text."""

from __future__ import annotations

import json
import re
from typing import Final

from paddock.plan.source_map import SourceNode

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+')


class _Open:
    """A table or list that has not ended yet, and the place of its next value."""

    def __init__(self, part: SourceNode, *, is_table: bool) -> None:
        self.part = part
        self.is_table = is_table
        self.key: str | int | None = None if is_table else 0
        self.line = 0  # of the key

    def expect(self, key: str, line: int) -> None:
        """Note that the value of a key follows."""
        self.key, self.line = key, line

    def expect_next(self) -> None:
        """Note that another value follows: in a list the next one, in a table one whose key is not known yet."""
        self.key = self.key + 1 if isinstance(self.key, int) else None


def json_lines(text: str) -> SourceNode:
    """Return the parts of a JSON text; a value of a table has the line of its key."""
    root: SourceNode | None = None
    above: list[_Open] = []
    line, last = 1, 0
    for match in _TOKEN.finditer(text):
        line, last = line + text.count("\n", last, match.start()), match.start()
        piece = match[0]
        inner = above[-1] if above else None
        if piece in "]}":
            above.pop()
        elif piece == ",":
            assert inner is not None, "a comma stands inside a table or list"
            inner.expect_next()
        elif piece == ":":
            continue
        elif inner is not None and inner.is_table and inner.key is None:
            inner.expect(json.loads(piece), line)
        else:
            part = SourceNode(inner.line if inner is not None and inner.is_table else line)
            if inner is not None:
                assert inner.key is not None, "a value follows its key"
                inner.part.parts[inner.key] = part
            root = root or part
            if piece in "[{":
                above.append(_Open(part, is_table=piece == "{"))
    return root or SourceNode(1)
