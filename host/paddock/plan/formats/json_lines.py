"""The lines of what stands in a JSON text that has already been found to be one."""

from __future__ import annotations

import json
import re
from typing import Final

from paddock.plan.source_map import SourceNode

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+')


class _Open:
    """A table or list that has not ended yet, and where its next value belongs."""

    def __init__(self, part: SourceNode, *, is_table: bool) -> None:
        self.part = part
        self.is_table = is_table
        self.key: str | int | None = None if is_table else 0
        self.line = 0  # of the key


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
            inner.key = inner.key + 1 if isinstance(inner.key, int) else None
        elif piece == ":":
            continue
        elif inner is not None and inner.is_table and inner.key is None:
            inner.key, inner.line = json.loads(piece), line
        else:
            part = SourceNode(inner.line if inner is not None and inner.is_table else line)
            if inner is not None:
                assert inner.key is not None, "a value follows its key"
                inner.part.parts[inner.key] = part
            root = root or part
            if piece in "[{":
                above.append(_Open(part, is_table=piece == "{"))
    return root or SourceNode(1)
