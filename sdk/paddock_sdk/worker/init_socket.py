"""The end of the init socket in a worker's tree: a SOCK_SEQPACKET socket that ties the tree's life to the host's.

The worker passes the sockets of its network over it, sends `ready`, or the step that failed, and closes it before any
code of the module can run. The init keeps it, receives commands on it and finally reports how the worker ended. A host
that is gone is no error here.
"""

from __future__ import annotations

import os
import socket
import struct
from array import array
from typing import Any

import msgpack

FAILED_BEFORE_ENTRY = 70  # EX_SOFTWARE of sysexits.h: nothing of the module has run
REQUEST_BYTES = 1 << 18  # an entry and a profile; the host refuses longer ones before sending
PARTICULARS_LENGTH = struct.Struct(">I")  # precedes the host's data for the worker itself, over its other socket
_DETAIL_CHARS = 2000


def pack(message: object) -> bytes:
    """Return a message between the host and its processes; names of files keep bytes that are no text."""
    packed: bytes = msgpack.packb(message, unicode_errors="surrogateescape")
    return packed


def unpack(data: bytes) -> Any:
    """Return the value that was packed."""
    return msgpack.unpackb(data, unicode_errors="surrogateescape")


def receive(line: socket.socket, most_fds: int) -> tuple[bytes, list[int]]:
    """Return the next message with its descriptors; empty at the end."""
    fds = array("i")
    space = socket.CMSG_SPACE(most_fds * fds.itemsize)
    data, ancillary, _, _ = line.recvmsg(REQUEST_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, fds.tolist()


def read_exactly(fd: int, size: int) -> bytes:
    """Return so many bytes from the host.

    Raises:
        EOFError: it is gone.
    """
    data = b""
    while len(data) < size:
        read = os.read(fd, size - len(data))
        if not read:
            raise EOFError("the host is gone")
        data += read
    return data


def report(init_socket: int, message: dict[str, object]) -> None:
    """Send one message to the host."""
    try:
        os.write(init_socket, pack(message))
    except OSError:
        pass  # the host is gone, which is seen elsewhere


def report_failure(init_socket: int, step: str, error: BaseException) -> None:
    """Report the step that failed before the entry was reached to the host, with the error number if there is one."""
    number = error.errno if isinstance(error, OSError) and error.errno is not None else 0
    detail = f"{type(error).__name__}: {error}"[:_DETAIL_CHARS]
    report(init_socket, {"failed": {"step": getattr(error, "step", step), "errno": number, "detail": detail}})


def hand_over(init_socket: int, kind: str, descriptors: list[int]) -> None:
    """Pass descriptors to the host, and close them.

    Call it before the worker is limited: the kernel counts all descriptors in transit of a user against the sender's
    limit on open files.
    """
    line = socket.socket(fileno=init_socket)
    try:
        socket.send_fds(line, [pack({kind: len(descriptors)})], descriptors)
    finally:
        line.detach()
        for descriptor in descriptors:
            os.close(descriptor)


def say_ready(init_socket: int, ready: dict[str, object]) -> None:
    """Report the result of the worker's start to the host, and close the init socket."""
    report(init_socket, {"ready": ready})
    os.close(init_socket)
