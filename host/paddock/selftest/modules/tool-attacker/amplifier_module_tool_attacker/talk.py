"""Talk to services: directly, or through a proxy, and as no well-meaning client would.

Only an answer counts. Where the proxy accepts every connection and then carries it or not, a connection alone proves
nothing.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from .way import RefusedActError

GREETING = b"at your service"
SECONDS = 3.0  # for an answer
_CHUNK = 1 << 16
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)

Connect = Callable[[str, int], socket.socket]
Place = Sequence[Any]
"""A host and a port."""


@contextlib.contextmanager
def closed_by_failure(line: socket.socket) -> Iterator[None]:
    """Close a connection if what is done with it fails."""
    try:
        yield
    except BaseException:
        line.close()
        raise


def connect(host: str, port: int) -> socket.socket:
    """Return a direct connection."""
    try:
        return socket.create_connection((host, port), timeout=SECONDS)
    except socket.gaierror as error:
        raise RefusedActError("ENOENT", f"no address of {host}: {error.strerror}") from None


def connect_to_proxy(url: str = "") -> socket.socket:
    """Return a connection to a proxy, by default the one in the client's environment."""
    there = urlsplit(url or os.environ.get("HTTP_PROXY", ""))
    if not there.hostname:
        raise RefusedActError("ENOENT", "there is no proxy")
    return socket.create_connection((there.hostname, there.port or 80), timeout=SECONDS)


def proxy_credentials(url: str = "") -> bytes:
    """Return the header that authenticates a user of the proxy, empty where it needs none."""
    there = urlsplit(url or os.environ.get("HTTP_PROXY", ""))
    if there.username is None:
        return b""
    credentials = f"{unquote(there.username)}:{unquote(there.password or '')}"
    return b"Proxy-Authorization: Basic " + base64.b64encode(credentials.encode()) + b"\r\n"


def tunnel(host: str, port: int) -> socket.socket:
    """Return a connection through the proxy."""
    line = connect_to_proxy()
    with closed_by_failure(line):
        return _tunnelled(line, f"{host}:{port}".encode(), proxy_credentials())


def ask_proxy(authority: str, *, by_tunnel: bool, url: str = "", credentials: bytes | None = None) -> str:
    """Ask a proxy for a page of `authority`, sent exactly as written, and return its content."""
    known = proxy_credentials(url) if credentials is None else credentials
    target = authority.encode()
    with connect_to_proxy(url) as line:
        if by_tunnel:
            _tunnelled(line, target, known)
            return answered(line, b"GET / HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
        return answered(line, b"GET http://" + target + b"/ HTTP/1.1\r\nHost: " + target + b"\r\n" + known + b"\r\n")


def asked(line: socket.socket, request: bytes, *, until_end: bool = False) -> bytes:
    """Return the answer to a request: a whole answer, or everything until the connection ends.

    Raises:
        RefusedError: there is no answer, or it is a refusal.
    """
    line.settimeout(SECONDS)
    line.sendall(request)
    answer, deadline = b"", time.monotonic() + SECONDS
    while (until_end or not _is_whole(answer)) and time.monotonic() < deadline:
        try:
            received = line.recv(_CHUNK)
        except (TimeoutError, ConnectionResetError):
            break
        if not received:
            break
        answer += received
    if not answer:
        raise RefusedActError("ECONNRESET", "there is no answer")
    status = _STATUS.match(answer)
    if status is not None and status[1] >= b"400":
        raise RefusedActError(status[1].decode(), answer.partition(b"\r\n\r\n")[2].decode(errors="replace"))
    return answer


def answered(line: socket.socket, request: bytes) -> str:
    """Return the greeting of the service that answers a request.

    Raises:
        RefusedError: none does.
    """
    answer = asked(line, request)
    if GREETING not in answer:
        raise RefusedActError("ECONNRESET", f"another answer: {answer[:100]!r}")
    return answer.partition(b"\r\n\r\n")[2].decode()


def must_reach(host: str, port: int) -> None:
    """Check that the granted service answers: otherwise an unreachable target proves nothing.

    Raises:
        RuntimeError: it does not.
    """
    reasons = []
    for way in (connect, tunnel):
        try:
            with way(host, port) as line:
                answered(line, f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
                return
        except (OSError, RefusedActError) as error:
            reasons.append(str(error))
    raise RuntimeError(f"what was granted cannot be reached: {'; '.join(reasons)}")


def _tunnelled(line: socket.socket, authority: bytes, credentials: bytes) -> socket.socket:
    asked(line, b"CONNECT " + authority + b" HTTP/1.1\r\nHost: " + authority + b"\r\n" + credentials + b"\r\n")
    return line


def _is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    if head.startswith(b"HTTP/1.1 1"):
        return bool(body) if b"websocket" in head else _is_whole(body)
    length = _LENGTH.search(head)
    if length is not None:
        return len(body) >= int(length[1])
    return b"chunked" not in head.lower() or (b"0\r\n" in body and body.endswith(b"\r\n\r\n"))
