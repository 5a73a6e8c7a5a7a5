"""The end of the init socket in a worker's tree: a SOCK_SEQPACKET socket that ties the tree's life to the host's.

The worker passes the sockets of its network over it, says `ready`, or the step that failed, and lets go of it before
any code of the module can run; the init keeps it, hears commands on it and says at the end how the worker ended. That
the host is gone is no error here.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any

import msgpack

FAILED_BEFORE_ENTRY = 70  # EX_SOFTWARE of sysexits.h: nothing of the module has run
REQUEST_BYTES = 1 << 18  # an entry and a profile; the host refuses longer ones before sending
PARTICULARS_LENGTH = struct.Struct(">I")  # before what the host tells the worker itself, over its other socket
_DETAIL_CHARS = 2000


def pack(message: object) -> bytes:
    """Return a message between the host and its processes; names of files keep bytes that are no text."""
    packed: bytes = msgpack.packb(message, unicode_errors="surrogateescape")
    return packed


def unpack(data: bytes) -> Any:
    """Return what was packed."""
    return msgpack.unpackb(data, unicode_errors="surrogateescape")


def report(init_socket: int, message: dict[str, object]) -> None:
    """Send one message to the host."""
    try:
        os.write(init_socket, pack(message))
    except OSError:
        pass  # the host is gone, which is seen elsewhere


def report_failure(init_socket: int, step: str, error: BaseException) -> None:
    """Tell the host which step failed before the entry was reached, with the error number where there is one."""
    number = error.errno if isinstance(error, OSError) and error.errno is not None else 0
    detail = f"{type(error).__name__}: {error}"[:_DETAIL_CHARS]
    report(init_socket, {"failed": {"step": getattr(error, "step", step), "errno": number, "detail": detail}})


def hand_over(init_socket: int, kind: str, descriptors: list[int]) -> None:
    """Pass the host descriptors, and let go of them.

    Before the worker is limited: the kernel holds what all processes of a user have on its way against the limit on
    open files of the one that sends.
    """
    line = socket.socket(fileno=init_socket)
    try:
        socket.send_fds(line, [pack({kind: len(descriptors)})], descriptors)
    finally:
        line.detach()
        for descriptor in descriptors:
            os.close(descriptor)


def say_ready(init_socket: int, ready: dict[str, object]) -> None:
    """Tell the host what became of the worker's start, and let go of the init socket."""
    report(init_socket, {"ready": ready})
    os.close(init_socket)
