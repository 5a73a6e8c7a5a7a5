"""The first bytes of a client: its protocol, and in TLS the server that it wants.

Both functions look at a connection's first bytes and nothing else, and keep no state.

Detection of the protocol leans towards HTTP: bytes that a lenient server might take for a request must be read as one,
since a request names a host of its own. An unusual method, blank lines before it, spaces too many and a line without an
end all count; the strict parser behind this refuses them then. TLS is recognised by its first two bytes, also where the
first record is no hello: some servers read on past a warning, to a hello that may name another host.

Reading the hello is strict where leniency would let two readers see two names: each extension once, one name, every
length exact (RFC 8446 section 4.1.2 and 4.2, RFC 6066 section 3). For any bytes, the result is a hello, a request for
more bytes, or `ClientHelloError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from paddock.plan.host_name import Host, parse_host
from paddock.plan.problems import NotAcceptedError

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
    """The protocol that a connection begins with."""

    TLS = "tls"
    HTTP = "http"
    OTHER = "other"


def client_protocol_of(data: bytes | bytearray) -> ClientProtocol | None:
    """Return the protocol of a client's bytes, from the first on; None: more bytes are needed.

    It decides by `MAX_LINE_BYTES` at the latest. A caller that gives up waiting before it decides has the beginning of
    a request, or nothing.
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
        return ClientProtocol.HTTP  # with any bytes in the place of the method, and after it
    return ClientProtocol.OTHER if newline or length < len(first) else undecided


# -- the hello of TLS -------------------------------------------------------------------------------

MAX_HELLO_BYTES: Final = 16 * 1024  # the largest in use, with keys against quantum computers, have some 2 KiB

# One suffices; clients that hide from censors send a handful. Bounds the cost of reading a hello again and again.
_MAX_RECORDS: Final = 64
_MAX_RECORD_BYTES: Final = 1 << 14
_RECORD_HEADER_BYTES: Final = 5
_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_ENCRYPTED_CLIENT_HELLO: Final = 0xFE0D
_MAX_NAME_BYTES: Final = 255


class ClientHelloError(ValueError):
    """Raised for bytes that do not begin a TLS connection, or do not name exactly one server."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """A whole hello: the server it names, as `parse_host` spells it, and whether it has a second, encrypted hello.

    Clients that encrypt nothing also send the extension for that, so that servers get used to it (GREASE).
    """

    server_name: Host | None
    has_encrypted_hello: bool


def read_client_hello(data: bytes | bytearray | memoryview) -> ClientHello | None:
    """Return the hello that a connection's bytes, from the first on, begin with; None: more of them are needed.

    Raises:
        ClientHelloError: they begin no TLS connection, or with a hello that is malformed, ambiguous or too long.
    """
    message = _handshake_message(memoryview(data)[:MAX_HELLO_BYTES])
    if message is not None:
        return _hello(message)
    if len(data) >= MAX_HELLO_BYTES:
        raise ClientHelloError(f"the hello is longer than {MAX_HELLO_BYTES} bytes")
    return None


def _handshake_message(data: memoryview) -> bytes | None:
    """Return the first handshake message, put together from the records that it comes in; None: not all is there."""
    message = bytearray()
    at = 0
    for _ in range(_MAX_RECORDS):
        header = data[at : at + _RECORD_HEADER_BYTES]
        if len(header) >= 1 and header[0] != _HANDSHAKE:
            raise ClientHelloError("not a TLS handshake")
        if len(header) >= 2 and header[1] != 3:
            raise ClientHelloError("not a version of TLS")
        if len(header) < _RECORD_HEADER_BYTES:
            return None
        size = int.from_bytes(header[3:5], "big")
        if not 0 < size <= _MAX_RECORD_BYTES:
            raise ClientHelloError(f"a record of {size} bytes")
        at += _RECORD_HEADER_BYTES
        fragment = data[at : at + size]
        message += fragment
        if message and message[0] != _CLIENT_HELLO:
            raise ClientHelloError(f"the first message is of type {message[0]}, not a client's hello")
        if len(message) >= 4:
            needed = 4 + int.from_bytes(message[1:4], "big")
            if needed > MAX_HELLO_BYTES:
                raise ClientHelloError(f"the hello is longer than {MAX_HELLO_BYTES} bytes")
            if len(message) > needed:
                raise ClientHelloError("the record of the hello goes on after it")
            if len(message) == needed and len(fragment) == size:
                return bytes(message[4:])
        if len(fragment) < size:
            return None
        at += size
    raise ClientHelloError(f"the hello comes in more than {_MAX_RECORDS} records")


def _hello(message: bytes) -> ClientHello:
    reader = _Reader(message)
    if reader.take(2)[0] != 3:
        raise ClientHelloError("not a version of TLS")
    reader.take(32)  # random
    if len(reader.vector(1)) > 32:
        raise ClientHelloError("a session id that is too long")
    ciphers = reader.vector(2)
    if not ciphers or len(ciphers) % 2:
        raise ClientHelloError("a malformed list of ciphers")
    if not reader.vector(1):
        raise ClientHelloError("no method of compression")
    extensions = {} if reader.at_end else _extensions(reader.vector(2))
    if not reader.at_end:
        raise ClientHelloError("the hello goes on after its extensions")
    names = extensions.get(_SERVER_NAME)
    return ClientHello(
        server_name=None if names is None else _server_name(names),
        has_encrypted_hello=_ENCRYPTED_CLIENT_HELLO in extensions,
    )


def _extensions(data: bytes) -> dict[int, bytes]:
    reader = _Reader(data)
    extensions: dict[int, bytes] = {}
    while not reader.at_end:
        kind = reader.number(2)
        if kind in extensions:
            raise ClientHelloError(f"extension {kind} is there twice")
        extensions[kind] = reader.vector(2)
    return extensions


def _server_name(data: bytes) -> Host:
    reader = _Reader(data)
    names = _Reader(reader.vector(2))
    if not reader.at_end:
        raise ClientHelloError("the server's name is followed by something else")
    if names.number(1) != _HOST_NAME:
        raise ClientHelloError("a server's name of an unknown kind")
    name = names.vector(2)
    if not names.at_end:
        raise ClientHelloError("several names of a server")
    if not 0 < len(name) <= _MAX_NAME_BYTES:
        raise ClientHelloError(f"a server's name of {len(name)} bytes")
    try:
        return parse_host(name.decode("ascii"))
    except UnicodeDecodeError:
        raise ClientHelloError("a server's name that is not ASCII") from None
    except NotAcceptedError as error:
        raise ClientHelloError(f"the server's name: {error.problem}") from None


class _Reader:
    """Takes fields off a message; a field that is cut short is malformed, since the message is whole."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ClientHelloError("the hello is cut short")
        self._at += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, length_bytes: int) -> bytes:
        return self.take(self.number(length_bytes))
