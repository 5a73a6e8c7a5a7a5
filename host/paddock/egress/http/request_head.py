"""Read the head of one HTTP request strictly, so that there is only one way to understand it.

It takes the bytes up to the empty line, and no more, so that nothing of the next request is read before this one was
checked. h11 parses them; a form that h11 would forgive, and another reader might understand in another way, is refused
first. The request is then rewritten from its parsed form (RFC 9112, sections 2.2, 5 and 6.3).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import h11

from paddock.egress.errors import BadRequestError
from paddock.plan.host_name import Destination, parse_authority
from paddock.plan.problems import NotAcceptedError

_END: Final = b"\r\n\r\n"
# A line that ends in half of CRLF, or goes on in the next one; and the byte that ends text for some.
_AMBIGUOUS: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\n[ \t]|\0")
_MAX_LINES: Final = 128  # as common servers have it; each costs more to read than it costs to send
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_SCHEME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:")
_HTTP: Final = re.compile(rb"http://", re.IGNORECASE)
_END_OF_AUTHORITY: Final = re.compile(rb"[/?]")

HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443


@dataclass(frozen=True, slots=True)
class RequestHead:
    """One parsed request; `connection` is h11's, and reads what follows."""

    connection: h11.Connection
    request: h11.Request

    @property
    def method(self) -> bytes:
        return self.request.method

    @property
    def target(self) -> bytes:
        return self.request.target

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of all headers of that name, which is in lower case."""
        return [value for found, value in self.request.headers if found == name]

    def tokens(self, name: bytes) -> set[bytes]:
        """Return what the headers of that name list, in lower case."""
        return {token.strip().lower() for value in self.values(name) for token in value.split(b",")} - {b""}

    def host(self, default_port: int) -> Destination | None:
        """Return the host in the Host header; None if there is none, as in HTTP/1.0.

        Raises:
            BadRequestError: it names no host.
        """
        values = self.values(b"host")
        return parsed_authority(values[0], default_port) if values else None


def take_head(buffer: bytearray, max_bytes: int) -> RequestHead | None:
    """Take the head of a request off the front of `buffer`; None: not all of it is there.

    Raises:
        BadRequestError: it is too long, or there is no one way to understand it.
    """
    end = buffer.find(_END, 0, max_bytes)
    head = bytes(buffer[: end + len(_END)] if end >= 0 else buffer[:max_bytes])
    if head.startswith((b"\r", b"\n")):
        raise BadRequestError("a request begins with an empty line")
    if _AMBIGUOUS.search(head):
        raise BadRequestError("a line of the request does not end in CRLF, or goes on in the next")
    if end < 0:
        if len(buffer) >= max_bytes:
            raise BadRequestError(f"the head of the request is longer than {max_bytes} bytes", 431)
        return None
    if head.count(b"\n") > _MAX_LINES:
        raise BadRequestError(f"the head of the request has more than {_MAX_LINES} lines", 431)
    connection = h11.Connection(h11.SERVER, max_bytes)
    connection.receive_data(head)
    try:
        request = connection.next_event()
    except h11.RemoteProtocolError as error:
        # Not its text, which quotes the line with any secret in it.
        raise BadRequestError("the request is malformed", error.error_status_hint) from None
    if not isinstance(request, h11.Request):
        raise BadRequestError("the request is malformed")
    del buffer[: len(head)]
    understood = RequestHead(connection, request)
    if request.http_version not in (b"1.0", b"1.1"):
        raise BadRequestError("only HTTP/1.0 and HTTP/1.1 are spoken here", 505)
    if b"#" in request.target:
        raise BadRequestError("the target has a fragment")
    _refuse_ambiguous_framing(understood, head)
    return understood


def split_target(target: bytes) -> tuple[Destination, bytes] | None:
    """Return the destination of `http://host/path`, and the path there; None: the target is no such address.

    Raises:
        BadRequestError: it has another scheme, or names no host.
    """
    if target.startswith(b"/") or target == b"*":
        return None
    if not _HTTP.match(target):
        scheme = _SCHEME.match(target)
        raise BadRequestError(
            "only `http:` is asked for in this way, everything else through CONNECT" if scheme else "no such target"
        )
    rest = target[len(b"http://") :]
    end = _END_OF_AUTHORITY.search(rest)
    authority, path = (rest, b"/") if end is None else (rest[: end.start()], rest[end.start() :])
    return parsed_authority(authority, HTTP_PORT), path if path.startswith(b"/") else b"/" + path


def parsed_authority(text: bytes, default_port: int | None = None) -> Destination:
    """Return the destination in `host[:port]`.

    Raises:
        BadRequestError: it is none.
    """
    try:
        return parse_authority(text.decode("ascii"), default_port)
    except (UnicodeDecodeError, NotAcceptedError):
        raise BadRequestError("the request names no host, or one in a spelling that could be another") from None


def _refuse_ambiguous_framing(head: RequestHead, raw: bytes) -> None:
    # Counted in the received headers: h11 makes one of two equal lengths.
    lines = [line.partition(b":") for line in raw.lower().split(b"\r\n")[1:]]
    lengths = [value.strip(b" \t") for name, _, value in lines if name == b"content-length"]
    is_chunked = bool(head.values(b"transfer-encoding"))
    if len(lengths) > 1 or any(not _LENGTH.fullmatch(length) for length in lengths):
        raise BadRequestError("the request has more than one length, or none that is a number")
    if is_chunked and (lengths or head.request.http_version != b"1.1"):
        raise BadRequestError("the request says in two ways how long it is")
