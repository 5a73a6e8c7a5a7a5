"""What a client speaks, told from the first bytes it sends.

Leans towards HTTP: what a lenient server might take for a request must come to be read as one, since a request names a
host of its own. An unusual method, blank lines before it, spaces too many and a line without an end all count; the
strict parser behind this refuses them then. TLS is recognised by its first two bytes and read by `client_hello`, also
where the first record is no hello: some servers read on past a warning, to a hello that may name another host.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

MAX_LINE_BYTES: Final = 8192  # the longest request line that servers commonly take

_TLS_RECORDS: Final = frozenset(range(0x14, 0x19))  # change of cipher, alert, handshake, data, heartbeat
_TLS_MAJORS: Final = range(0x10)  # clients write 3; of a first record, some servers take any of these

# What lenient servers take for space between words counts: vertical tab, form feed, the separators, and in Latin-1 the
# next line and the space that does not break.
_ODD: Final = b"\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"
_BLANK: Final = b" \t\r\n" + _ODD
_WORD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110: a token, which a method is
_TEXT: Final = re.compile(rb"[\t\r -~" + re.escape(_ODD) + rb"]*")
_METHODS: Final = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"))
_VERSION: Final = re.compile(rb"HTTP/", re.IGNORECASE)


class ClientProtocol(Enum):
    """What a connection begins with."""

    TLS = "tls"
    HTTP = "http"
    OTHER = "other"


def client_protocol_of(data: bytes | bytearray) -> ClientProtocol | None:
    """Return what a client's bytes, from the first on, begin; None: that cannot be told before there are more.

    Decides by `MAX_LINE_BYTES` at the latest. Whoever gives up waiting before it is decided has been sent the beginning
    of a request, or nothing.
    """
    if not data or (len(data) == 1 and data[0] in _TLS_RECORDS):
        return None
    if data[0] in _TLS_RECORDS and data[1] in _TLS_MAJORS:
        return ClientProtocol.TLS
    line = bytes(data[:MAX_LINE_BYTES]).lstrip(_BLANK)
    undecided = None if len(data) < MAX_LINE_BYTES else ClientProtocol.HTTP
    if not line:
        return undecided
    word = _WORD.match(line)
    if word is None:
        return ClientProtocol.OTHER
    if word[0] in _METHODS and line[word.end() : word.end() + 1] in (b" ", b"\t"):
        return ClientProtocol.HTTP
    first, newline, _ = line.partition(b"\n")
    text = _TEXT.match(first)
    length = 0 if text is None else text.end()
    if _VERSION.search(first, 0, length):
        return ClientProtocol.HTTP  # whatever is in the place of the method, and whatever bytes follow
    return ClientProtocol.OTHER if newline or length < len(first) else undecided
