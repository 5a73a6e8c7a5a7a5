"""The two ends of what goes through a gate, each in a process of its own, and as plain as can be.

python egress_child.py serve     tells its ports and the certificate to trust, serves until its input ends
python egress_child.py ask       does what each line of its input says, and tells how long it took
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import Any

_PIECE = bytes(256 * 1024)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n" + b"x" * 200


def serve() -> None:
    """Swallow what is poured into one port, answer requests at the others: in the clear, and in TLS."""
    from paddock.egress.certificate_authority import CertificateAuthority
    from paddock.plan.net_rule import NetRule

    authority = CertificateAuthority([NetRule.parse("127.0.0.1")])
    context = authority.context_for(IPv4Address("127.0.0.1"))
    ports = {
        "swallow": _listen(_swallow),
        "answer": _listen(_answer),
        "answer in tls": _listen(lambda sock: _answer(context.wrap_socket(sock, server_side=True))),
        "events in tls": _listen(lambda sock: _send_events(context.wrap_socket(sock, server_side=True))),
    }
    print(json.dumps({"ports": ports, "certificate": authority.pem}), flush=True)
    sys.stdin.read()


def _listen(handle: Callable[[socket.socket], None]) -> int:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    def accept() -> None:
        while True:
            sock, _ = listener.accept()
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            threading.Thread(target=handle, args=[sock], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def _swallow(sock: socket.socket) -> None:
    buffer = bytearray(1 << 20)
    with sock:
        while sock.recv_into(buffer):
            pass
        sock.sendall(b".")


def _answer(sock: socket.socket) -> None:
    with sock:
        heard = b""
        while data := sock.recv(1 << 16):
            heard += data
            while b"\r\n\r\n" in heard:
                heard = heard.partition(b"\r\n\r\n")[2]
                sock.sendall(_ANSWER)


def _send_events(sock: socket.socket) -> None:
    """Send one event, with the time at which it is sent, for each piece of the request's body."""
    with sock:
        heard = b""
        while b"\r\n\r\n" not in heard:
            heard += sock.recv(1 << 16)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        while (data := sock.recv(1 << 16)) and not data.startswith(b"0"):
            sock.sendall(b"data: %f\n\n" % time.monotonic())


def ask() -> None:
    """Pour bytes, or ask: again and again on one connection, or on one each."""
    for line in sys.stdin:
        given = json.loads(line)
        acts: dict[str, Callable[..., list[float]]] = {
            "pour": _pour,
            "ask": _ask,
            "connect and ask": _connect_and_ask,
            "follow": _follow,
        }
        print(json.dumps(acts[given.pop("act")](**given)), flush=True)


def _pour(port: int, count: int) -> list[float]:
    with _connected(port) as sock:
        before = time.perf_counter()
        for _ in range(count):
            sock.sendall(_PIECE)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b"."
        return [len(_PIECE) * count / (time.perf_counter() - before) / 1e6]


def _ask(port: int, count: int, host: str, certificate: str = "") -> list[float]:
    sock = _connected(port)
    if certificate:
        sock = ssl.create_default_context(cadata=certificate).wrap_socket(sock, server_hostname="127.0.0.1")
    with sock:
        _asked(sock, host)
        return [_asked(sock, host) for _ in range(count)]


def _connect_and_ask(port: int, count: int, host: str) -> list[float]:
    taken = []
    for _ in range(count):
        before = time.perf_counter()
        with _connected(port) as sock:
            _asked(sock, host)
        taken.append((time.perf_counter() - before) * 1000)
    return taken


def _follow(port: int, count: int, host: str, certificate: str) -> list[float]:
    """Ask for one event after another, and return how long each took from being sent to being read."""
    context = ssl.create_default_context(cadata=certificate)
    head = "POST /v1/chat HTTP/1.1", f"Host: {host}", "Authorization: Bearer placeholder-of-a-key"
    taken = []
    with context.wrap_socket(_connected(port), server_hostname="127.0.0.1") as sock:
        sock.sendall("\r\n".join([*head, "Transfer-Encoding: chunked", "", ""]).encode())
        while sock.recv(1 << 16).find(b"\r\n\r\n") < 0:
            pass
        for _ in range(count):
            sock.sendall(b"1\r\n.\r\n")
            heard = b""
            while b"\n\n" not in heard:
                heard += sock.recv(1 << 16)
            taken.append((time.monotonic() - float(heard.partition(b"data: ")[2].split(b"\n")[0])) * 1000)
        sock.sendall(b"0\r\n\r\n")
    return taken


def _connected(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return sock


def _asked(sock: Any, host: str) -> float:
    request = f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer placeholder-of-a-key\r\n\r\n".encode()
    before = time.perf_counter()
    sock.sendall(request)
    heard = b""
    while not heard.endswith(b"x" * 200):
        heard += sock.recv(1 << 16)
    return (time.perf_counter() - before) * 1000


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]]()
