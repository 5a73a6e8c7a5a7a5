"""The character set of a page, as given by its server, its first bytes or the page itself."""

from __future__ import annotations

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_IN_PAGE = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_IN_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})", re.IGNORECASE)
_LOOKED_AT_BYTES = 1024  # the standard places the page's own declaration there

# Python knows codecs that no page uses (`unicode_escape`, `idna`); these are those in use.
_KNOWN = re.compile(
    r"utf-?8|utf-?16(-?[lb]e)?|(us-)?ascii|iso-?8859-?\d{1,2}|latin-?1|windows-?\d{3,4}|cp\d{3,4}|koi8-?[ru]|macintosh"
    r"|gb2312|gbk|gb18030|big5(-hkscs)?|shift[_-]jis|sjis|euc-(jp|kr)|iso-2022-jp"
)
# How browsers read these: pages declare Latin-1 and mean the larger set.
_MEANT = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252"}


def decoded(body: bytes, declared: str) -> str:
    """Return the text of `body`; `declared` is the charset in the header. Unreadable bytes become question marks."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    start = body[:_LOOKED_AT_BYTES]
    found = _IN_XML.search(start) or _IN_PAGE.search(start)
    for name in (declared, found[1].decode("ascii", "replace") if found else ""):
        name = name.strip().lower()
        if _KNOWN.fullmatch(name):
            try:
                return body.decode(_MEANT.get(name, name), "replace")
            except LookupError:
                continue
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        # A page that was cut may end in half a character.
        is_cut = error.start >= len(body) - 3
        return body.decode("utf-8" if is_cut else "cp1252", "replace")
