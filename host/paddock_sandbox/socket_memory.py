"""Ask the kernel for the memory of a network namespace's sockets: unread bytes, and the structures around them.

A descriptor from `open_inquiry` answers for the namespace in which it was made, in any process. It also covers sockets
that no process has open because they are in transit to one. It needs no right. Linux calls it sock_diag.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

SOCKET_BYTES: Final = 2048  # the memory of a socket itself, with its file

# From <linux/netlink.h>, <linux/sock_diag.h>, <linux/unix_diag.h> and <linux/inet_diag.h>.
_AF_NETLINK: Final = 16
_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_ERROR, _DONE = 2, 3
_REQUEST_DUMP: Final = 0x301
_HEADER: Final = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
_ATTRIBUTE: Final = struct.Struct("=HH")  # length, kind
_NUMBER: Final = struct.Struct("=i")
_UNIX_REQUEST: Final = struct.Struct("=BBHIIIII")  # family, protocol, -, states, inode, what to show, cookie
_UNIX_ANSWER: Final = struct.Struct("=BBBBIII")  # family, type, state, -, inode, cookie
_UNIX_SHOW_MEMORY, _UNIX_MEMORY = 0x20, 5
_UNIX_SHOW_QUEUE, _UNIX_QUEUE = 0x10, 4
_LISTENS: Final = 10  # a socket's state, in which its queue holds connections
_INET_REQUEST: Final = struct.Struct("=BBBBI48x")  # family, protocol, what to show, -, states, and any socket
_INET_ANSWER: Final = struct.Struct("=4x48x16xI")  # inode
_INET_SHOW_MEMORY, _INET_MEMORY = 1 << 6, 7
_QUEUE: Final = struct.Struct("=II")  # of a socket that listens: the connections in it, and the most of them
_MEMORY: Final = struct.Struct("=8I")  # received, its limit, sent, its limit, ahead, queued, options, backlog
_ALL_STATES: Final = 0xFFFF_FFFF
_ANSWER_BYTES: Final = 1 << 16


def open_inquiry() -> socket.socket:
    """Return a descriptor that asks for the calling process's network namespace.

    Raises:
        OSError: the kernel provides none.
    """
    # Not waited for: the kernel answers during the request, and continues whenever a part is read.
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    return socket.socket(_AF_NETLINK, kind, _NETLINK_SOCK_DIAG)


def unix_sockets(inquiry: socket.socket, waiting: int) -> Iterator[tuple[int, int]]:
    """Yield the inode and the bytes of each Unix socket.

    A connection that nobody has accepted is not among them. What was sent to it stays when its sender is closed, so it
    counts as `waiting` bytes of the socket that listens.

    Raises:
        OSError: the kernel does not answer.
    """
    shown = _UNIX_SHOW_MEMORY | _UNIX_SHOW_QUEUE
    for answer in _answers(inquiry, _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, 0, shown, 0, 0)):
        (_, _, state, _, inode, _), attributes = _UNIX_ANSWER.unpack_from(answer)[:6], answer[_UNIX_ANSWER.size :]
        queue = _attribute(attributes, _UNIX_QUEUE, _QUEUE.size) if state == _LISTENS else b""
        connections = _QUEUE.unpack_from(queue)[0] if queue else 0
        yield inode, _held(attributes, _UNIX_MEMORY) + connections * waiting


def internet_sockets(inquiry: socket.socket) -> Iterator[tuple[int, int]]:
    """Yield the inode and the bytes of each TCP and UDP socket; 0 is the inode of one that was closed and goes on.

    Raises:
        OSError: the kernel does not answer.
    """
    for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        request = _INET_REQUEST.pack(socket.AF_INET, protocol, _INET_SHOW_MEMORY, 0, _ALL_STATES)
        for answer in _answers(inquiry, request):
            yield _INET_ANSWER.unpack_from(answer)[0], _held(answer[_INET_ANSWER.size :], _INET_MEMORY)


def _answers(inquiry: socket.socket, request: bytes) -> Iterator[bytes]:
    sequence = int.from_bytes(os.urandom(4), "little")  # an earlier answer may be partly unread
    inquiry.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, _REQUEST_DUMP, sequence, 0) + request)
    while True:
        data = inquiry.recv(_ANSWER_BYTES)
        while len(data) >= _HEADER.size:
            length, kind, _, answered, _ = _HEADER.unpack_from(data)
            body, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
            if answered != sequence:
                continue
            if kind == _DONE:
                return
            if kind == _ERROR:
                number = -_NUMBER.unpack_from(body)[0] or errno.EPROTO
                raise OSError(number, f"sockets cannot be counted: {os.strerror(number)}")
            yield body


def _held(attributes: bytes, wanted: int) -> int:
    memory = _attribute(attributes, wanted, _MEMORY.size)
    if not memory:
        return SOCKET_BYTES
    received, _, sent, _, ahead, queued, options, backlog = _MEMORY.unpack_from(memory)
    return SOCKET_BYTES + int(received + max(sent, queued) + ahead + options + backlog)


def _attribute(attributes: bytes, wanted: int, size: int) -> bytes:
    """Return what an attribute of at least this size holds; nothing if it is not there."""
    while len(attributes) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(attributes)
        if kind == wanted and length >= _ATTRIBUTE.size + size:
            return attributes[_ATTRIBUTE.size : length]
        attributes = attributes[max(_ATTRIBUTE.size, (length + 3) & ~3) :]
    return b""
