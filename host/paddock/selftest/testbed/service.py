"""Services of the machine: a service answers every client, and notices texts that it should not receive.

They are lenient, as servers are: they answer everything that any of them might take for a request, and examine every
byte.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote

from paddock.plan.host_name import Destination

GREETING: Final = "at your service"
"""The content of every plain answer."""

_MAX_REMEMBERED: Final = 64 * 1024  # bytes of a connection
_BACKLOG: Final = 512
_ROUNDS: Final = 8  # of a loop, in which it accepts, reads and answers arrived data
_TLS: Final = b"\x16\x03"
_END_OF_HEAD: Final = re.compile(rb"\r?\n\r?\n")
_LENGTH: Final = re.compile(rb"^content-length[ \t]*:[ \t]*([0-9]+)", re.IGNORECASE | re.MULTILINE)
_CREDENTIALS: Final = re.compile(rb"^authorization[ \t]*:[ \t]*bearer[ \t]+([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_RANGE: Final = re.compile(rb"^range[ \t]*:[ \t]*bytes=([0-9]+)-([0-9]+)", re.IGNORECASE | re.MULTILINE)
_SWITCHING: Final = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
_SENT: Final = "/sent/"
_SLOWLY: Final = re.compile(r"/slowly/(?P<kind>[a-z]+)/(?P<text>(?:[0-9a-f]{2})+)")
_SLOW_SECONDS: Final = 0.8  # between the two halves of a slow answer
_ELSEWHERE: Final = "/elsewhere"


@dataclass(frozen=True, slots=True)
class ForbiddenText:
    """A text that a service should not receive: at all, or outside the head of a request, below its target."""

    text: bytes
    is_for_heads: bool = False


class TargetService:
    """Listens where `listener` does.

    Args:
        name: its name for people.
        unwanted: texts whose arrival it notices, by their names for people.
        is_open: whether a plain connection is not noticed.
        elsewhere: where it redirects requests for `/elsewhere`.
    """

    def __init__(
        self,
        name: str,
        listener: socket.socket,
        *,
        unwanted: Mapping[str, ForbiddenText] | None = None,
        is_open: bool = False,
        elsewhere: str = "",
    ) -> None:
        self.name = name
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self.unwanted = dict(unwanted or {})
        self.is_open = is_open
        self.elsewhere = elsewhere
        self._listener = listener
        self._visits: set[_Visit] = set()
        self._noticed: dict[str, None] = {}

    @property
    def authority(self) -> str:
        """Its host and port, in the form of a plan and a request."""
        host, port = self.address
        return Destination(ip_address(host), port).text

    def knocks(self) -> tuple[str, ...]:
        """Return the noticed accesses, and forget them."""
        noticed, self._noticed = self._noticed, {}
        return tuple(noticed)

    def notice(self, what: str) -> None:
        """Record an access."""
        self._noticed[what] = None

    # -- in the loop -----------------------------------------------------------------------------

    async def open(self) -> None:
        """Begin to answer."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Visit(self), sock=self._listener, backlog=_BACKLOG)

    async def close(self) -> None:
        """Stop listening, and drop all clients."""
        self._server.close()
        for visit in tuple(self._visits):
            visit.end()
        await settle()

    def begins(self, visit: _Visit) -> None:
        self._visits.add(visit)
        if not self.is_open:
            self.notice(f"somebody came to {self.name}")

    def ends(self, visit: _Visit) -> None:
        self._visits.discard(visit)


class _Visit(asyncio.Protocol):
    """One connection."""

    def __init__(self, service: TargetService) -> None:
        self._service = service
        self._seen = bytearray()
        self._unanswered = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._service.begins(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._service.ends(self)

    def end(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._seen += data[: _MAX_REMEMBERED - len(self._seen)]
        for name, secrecy in self._service.unwanted.items():
            if not secrecy.is_for_heads and secrecy.text in self._seen:
                self._service.notice(f"{self._service.name} was sent {name}")
        if self._seen.startswith(_TLS):
            return  # not supported here; the bytes contain no request
        self._unanswered += data[: _MAX_REMEMBERED - len(self._unanswered)]
        while (end := _END_OF_HEAD.search(self._unanswered)) is not None:
            head = bytes(self._unanswered[: end.start()])
            length = _LENGTH.search(head)
            ends_at = end.end() + (int(length[1]) if length is not None else 0)
            if len(self._unanswered) < ends_at:
                return
            self._look_at(head, bytes(self._unanswered[end.end() : ends_at]))
            del self._unanswered[:ends_at]
            if slowly := _SLOWLY.fullmatch(_path(head)):
                answer, rest = _halves(slowly["kind"], bytes.fromhex(slowly["text"]))
                self._transport.write(answer)
                asyncio.get_running_loop().call_later(_SLOW_SECONDS, self._end_with, rest)
                return
            answer = _answer(head, self._service)
            self._transport.write(answer)
            if answer.startswith(_SWITCHING):
                self._transport.close()  # there is nothing else to say

    def _end_with(self, rest: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(rest)
            self._transport.close()

    def _look_at(self, head: bytes, body: bytes) -> None:
        target, _, _ = head.partition(b"\n")
        for name, secrecy in self._service.unwanted.items():
            if secrecy.is_for_heads and (secrecy.text in target or secrecy.text in body):
                self._service.notice(f"{self._service.name} was sent {name} where it is kept for others to read")


def _path(head: bytes) -> str:
    words = head.split(None, 2)
    path = words[1].decode("latin-1") if len(words) > 1 else "/"
    return re.sub(r"^https?://[^/]*", "", path)


def _halves(kind: str, text: bytes) -> tuple[bytes, bytes]:
    """Return an answer in two halves, of which the first ends with a text, in the middle of a line."""
    if kind == "websocket":
        return _SWITCHING + _frame(text), _frame(b"\n")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {_KINDS[kind]}\r\nConnection: close\r\n\r\n".encode()
    return head + b"data: " + text, b"\n\n"


def _answer(head: bytes, service: TargetService) -> bytes:
    path = _path(head)
    if path == _ELSEWHERE:
        return _whole(b"", status="302 Found", headers=[f"Location: {service.elsewhere}"])
    if path.startswith(_SENT):
        found = _CREDENTIALS.search(head)
        received = found[1].strip().decode("latin-1") if found is not None else ""
        return _repeated(received, path.removeprefix(_SENT).partition("?")[0], head)
    return _whole(f"{GREETING} at {service.authority}\n".encode())


def _repeated(received: str, how: str, head: bytes) -> bytes:
    """Return an answer that contains the received text."""
    if how in _SPELLINGS:
        return _whole(_SPELLINGS[how](received).encode())
    match how:
        case "header":
            return _whole(b"", headers=[f"X-Received: {received}"])
        case "reason":
            return _whole(b"", status=f"200 {received}")
        case "target":
            return _whole(head.partition(b"\n")[0])
        case "chunks":
            return _chunked(*(received[at : at + 3] for at in range(0, len(received), 3)))
        case "trailer":
            return _chunked("and", end=f"X-Received: {received}\r\n")
        case "news":
            return f"HTTP/1.1 103 Early Hints\r\nLink: </{received}>; rel=preload\r\n\r\n".encode() + _whole(b"")
        case "parts":
            part = _RANGE.search(head)
            begin, end = (int(part[1]), int(part[2]) + 1) if part is not None else (0, len(received))
            return _whole(received[begin:end].encode(), status="206 Partial Content" if part is not None else "200 OK")
        case "gzip":
            return _whole(gzip.compress(received.encode()), headers=["Content-Encoding: gzip"])
        case "websocket":
            return _SWITCHING + _frame(received.encode())
    return _whole(b"?\n", status="404 Not Found")


def _chunked(*pieces: str, end: str = "") -> bytes:
    body = "".join(f"{len(piece):x}\r\n{piece}\r\n" for piece in pieces)
    return f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n{end}\r\n".encode()


def _frame(text: bytes) -> bytes:
    """Return a short text as a websocket's frame."""
    return bytes([0x81, len(text)]) + text


_KINDS: Final[Mapping[str, str]] = {"page": "text/plain", "events": "text/event-stream"}


_SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "body": lambda received: f'{{"error": "Incorrect key provided: {received}."}}',
    "json": lambda received: json.dumps({"key": received}).replace("/", r"\/"),
    "json-in-json": lambda received: json.dumps(json.dumps({"key": received}).replace("/", r"\/")),
    "url": lambda received: quote(received, safe=""),
    "base64": lambda received: base64.b64encode(f"user:{received}".encode()).decode(),
    "upper": str.upper,
    "backwards": lambda received: received[::-1],
    "hex": lambda received: received.encode().hex(),
    "spaced": " ".join,
}


def _whole(body: bytes, *, status: str = "200 OK", headers: Sequence[str] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


async def settle() -> None:
    """Return when the running loop has handled all arrived data."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
