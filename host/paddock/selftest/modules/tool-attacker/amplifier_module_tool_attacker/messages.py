"""Attacks on the host with messages: bytes on the module's own connection that no runtime would send."""

from __future__ import annotations

import os
import pickle
import socket
import stat
import struct
import time
from collections.abc import Iterator

from .descriptors import descriptors
from .way import RefusedActError, Way, in_one_way

_HEADER = struct.Struct(">IBBHIIIIH")  # length, kind, flags, method, id, target, parent, deadline, handles
_REQUEST, _RESPONSE, _NOTIFY, _MIRROR = 3, 4, 6, 10
_SHOW_MESSAGE = 24  # the host's method that shows a message to a person
_EMIT = 5  # the host's method that takes an event and its data
_ID = 900

_SECONDS = 10.0  # for a reader to take the sent data
_AT_ONCE = 1000  # messages
_HALF = 1000  # bytes
_NIL = b"\xc0"


class _Command:
    """Unpickles as a command that is run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/unpickled",)


def _frame(kind: int, *, id: int = 0, method: int = 0, target: int = 0, body: bytes = b"") -> bytes:
    return _HEADER.pack(_HEADER.size - 4 + len(body), kind, 0, method, id, target, 0, 0, 0) + body


def _array(count: int) -> bytes:
    return b"\xdd" + struct.pack(">I", count)


_LIES = {
    "garbage": lambda: struct.pack(">I", 60) + b"\xff" * 60,
    "a huge length": lambda: struct.pack(">I", 0xFFFFFFFF) + b"x" * 64,
    "a length of nothing": lambda: bytes(64),
    "an answer to no question": lambda: _frame(_RESPONSE, id=4242, body=_NIL),
    "the host's own words": lambda: _frame(_MIRROR, method=2, body=b"\x92\xa8tool:pre\xc3"),
    "deep nesting": lambda: _frame(_REQUEST, method=_EMIT, id=_ID, body=b"\x91" * 100_000 + _NIL),
    "a million values": lambda: _frame(_REQUEST, method=_EMIT, id=_ID, body=_array(1_000_000) + b"\x90" * 1_000_000),
    "more than is there": lambda: _frame(_REQUEST, method=_EMIT, id=_ID, body=_array(0xFFFFFFFF) + b"\x90" * 64),
    "a pickle": lambda: _frame(_REQUEST, method=_EMIT, id=_ID, body=pickle.dumps(_Command())),
    "an object of others": lambda: _frame(_REQUEST, target=31337, id=_ID, body=b"\x92\x90\x80"),
}


def lie_to_the_host(lie: str, patience: float) -> Iterator[Way]:
    """Send false messages on the module's own connection; one without a disconnect within `patience` was believed."""
    yield lie, lambda: _sent(patience, _LIES[lie]())


@in_one_way("notify")
def flood_the_host(messages: int) -> str:
    """Send permitted messages, as often and as fast as possible."""
    body = b"\x93\xa5hello\xa4info\xa4tool"
    frame = _frame(_NOTIFY, method=_SHOW_MESSAGE, body=body)
    return _sent(0.0, *[frame * _AT_ONCE] * (messages // _AT_ONCE))


@in_one_way("dawdle")
def send_half_a_message(mebibytes: int, seconds: float) -> str:
    """Announce a message, and send it a byte at a time."""
    data = _frame(_REQUEST, method=_EMIT, id=_ID, body=bytes(mebibytes << 20))[:_HALF]
    line = connection()
    deadline = time.monotonic() + seconds
    for number in range(len(data)):
        _send(line, data[number : number + 1])
        if time.monotonic() > deadline:
            break
        time.sleep(seconds / len(data))
    return "waits for the rest"


@in_one_way("ask without reading")
def stop_reading(requests: int, patience: float) -> str:
    """Send requests without ever reading an answer, so that the host has to keep all answers."""
    # An event of a mebibyte without listeners comes back as it was.
    body = b"\x92\xacattack:flood\x81\xa4data\xc6" + struct.pack(">I", 1 << 20) + bytes(1 << 20)
    frames = (_frame(_REQUEST, method=_EMIT, id=_ID + number, body=body) for number in range(requests))
    return _sent(patience, *frames)


def _sent(patience: float, *frames: bytes) -> str:
    line = connection()
    for frame in frames:
        _send(line, frame)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if _is_closed(line):
            raise RefusedActError("EPIPE", "the connection was closed for it")
        time.sleep(0.02)
    return "said, and the connection lives"


def connection() -> socket.socket:
    """Return the socket to another process; both ends of an event loop's pairs are in this process."""
    for number in descriptors(stat.S_ISSOCK):
        line = socket.socket(fileno=os.dup(number))
        if line.family == socket.AF_UNIX and line.type == socket.SOCK_STREAM and _peer_of(line) != os.getpid():
            return line
        line.close()
    raise RuntimeError("there is no connection to anybody")


def _peer_of(line: socket.socket) -> int:
    pid: int = struct.unpack_from("i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    return pid


def _send(line: socket.socket, data: bytes) -> None:
    line.settimeout(_SECONDS)
    try:
        line.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        raise RefusedActError("EPIPE", "the connection was closed for it") from None
    finally:
        line.setblocking(False)


def _is_closed(line: socket.socket) -> bool:
    try:
        return line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
