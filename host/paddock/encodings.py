"""Every way a value may be spelled in a text that others wrote: as it is, in JSON, for a URL, in HTML, in base64.

JSON may contain JSON, to any depth, and a URL may contain another. A value of several lines may also be shown line by
line. JSON's styles and the value's lines bound the number of spellings. To hide a secret, the caller hides all of
these; this file does not know where, or what replaces it.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

_SHORTEST_ENCODED: Final = 8  # characters of base64: without those that share bits with neighbours
_JSON_DEPTH: Final = 3  # as in a tool's result, in a line of a log, in an event
_SHORTEST_LINE: Final = 8  # characters of one line of several: shorter ones are in other texts as well
_FRAME_OF_A_KEY: Final = "-----"  # as in `-----BEGIN PRIVATE KEY-----`, which every such file has


_SAME_IN_JSON: Final = re.compile(r"[A-Za-z0-9 .,:;=~_-]*")
_ESCAPED_BY_DOTNET: Final = re.compile(r"([\"&'+<>`]|[^\x00-\x7f])")


def encoded_forms(value: str) -> Iterator[str]:
    """Yield each way a value may stand in a text; equal ones may be yielded more than once."""
    yield value
    yield from _json(value)
    for quoted in (quote(value), quote(value, safe=""), quote_plus(value)):
        for text in (quoted, re.sub("%..", lambda escape: escape[0].lower(), quoted)):
            yield text
            yield quote(text, safe="")
    yield from _html(value)
    yield from (one for encoded in _base64(value.encode()) for one in _json(encoded))
    lines = value.splitlines()
    if len(lines) > 1:
        # Shown line by line, it is never shown as a whole.
        shown = (line for line in lines if len(line) >= _SHORTEST_LINE and not line.startswith(_FRAME_OF_A_KEY))
        yield from (one for line in shown for one in _json(line))


def _json(value: str) -> Iterator[str]:
    """Yield how JSON writes a value, also in a text that JSON writes again, in any mixture of styles."""
    if _SAME_IN_JSON.fullmatch(value):
        yield value
        return
    found = level = {value: None}
    for _ in range(_JSON_DEPTH):
        level = {style(one): None for one in level for style in _JSON_STYLES}
        found = found | level
    yield from found


def _html(value: str) -> Iterator[str]:
    """Yield how a page shows a value: libraries differ in how they write quotes, and in whether they do."""
    text = html.escape(value, quote=False)
    yield text
    for quote_mark in ("&quot;", "&#34;"):
        yield text.replace('"', quote_mark)
        for apostrophe in ("&#39;", "&#x27;", "&#039;", "&apos;"):
            quoted = text.replace('"', quote_mark).replace("'", apostrophe)
            yield quoted
            yield quoted.replace("+", "&#43;")
            yield quoted.replace("/", "&#x2F;").replace("=", "&#x3D;")


def _plain(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


def _ascii(value: str) -> str:
    return json.dumps(value)[1:-1]


def _as_php(write: Callable[[str], str]) -> Callable[[str], str]:
    return lambda value: write(value).replace("/", r"\/")


def _for_html(write: Callable[[str], str]) -> Callable[[str], str]:
    """Return a writer that escapes as Go does, for pages of HTML."""
    return lambda value: re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", write(value))


def _as_dotnet(value: str) -> str:
    parts = _ESCAPED_BY_DOTNET.split(value)  # in turn: text left as elsewhere, text escaped
    return "".join(_units(part) if place % 2 else _plain(part) for place, part in enumerate(parts))


def _units(letter: str) -> str:
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))


_JSON_STYLES: Final = (_plain, _ascii, _as_php(_plain), _as_php(_ascii), _for_html(_plain), _as_dotnet)


def _base64(value: bytes) -> Iterator[str]:
    """Yield the base64 letters of a value, alone and with anything before and after it."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(value).decode("ascii")
        for before in range(3):
            encoded = encode(b"\0" * before + value).decode("ascii").rstrip("=")
            # Letters that also depend on a neighbour: those with bits of what is before, and of what is after.
            first = (before * 8 + 5) // 6
            last = (before + len(value)) * 8 // 6
            if last - first >= _SHORTEST_ENCODED:
                yield encoded[first:last]
