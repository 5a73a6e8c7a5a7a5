"""How a value may be spelled in a text that somebody else wrote: as it is, in JSON, for a URL, in base64, by its lines.

Whoever hides a secret hides all of these. Knows nothing of where it is hidden, or what is put there instead.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

_SHORTEST_ENCODED: Final = 8  # characters of base64: what is left of a value, once its neighbours' bits are cut off
_SHORTEST_LINE: Final = 8  # characters of one line of several: shorter ones are in other texts as well
_FRAME_OF_A_KEY: Final = "-----"  # as in `-----BEGIN PRIVATE KEY-----`, which every such file has


def spellings(value: str) -> Iterator[str]:
    """Yield how a value may stand in a text; those that are alike are yielded more than once."""
    yield value
    yield from _json(value)
    for quoted in (quote(value), quote(value, safe=""), quote_plus(value)):
        yield quoted
        yield re.sub("%..", lambda escape: escape[0].lower(), quoted)
    yield from _base64(value.encode())
    lines = value.splitlines()
    if len(lines) > 1:
        # Whoever shows it line by line never shows all of it.
        yield from (line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith(_FRAME_OF_A_KEY))


def _json(value: str) -> Iterator[str]:
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    escaped = json.dumps(value)[1:-1]
    yield escaped
    yield escaped.replace("/", r"\/")  # as PHP does


def _base64(value: bytes) -> Iterator[str]:
    """Yield the letters that a value comes to in base64, alone and with anything before and after it."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(value).decode("ascii")
        for before in range(3):
            encoded = encode(b"\0" * before + value).decode("ascii").rstrip("=")
            # Letters that also depend on a neighbour: those with bits of what is before, and of what is after.
            first = (before * 8 + 5) // 6
            last = (before + len(value)) * 8 // 6
            if last - first >= _SHORTEST_ENCODED:
                yield encoded[first:last]
