"""Give the calling process a network in which every address is local, and the sockets at which everything arrives.

It is for an empty network namespace. Every address that a program connects to is local there. So the connection reaches
a listener made here, and its own end has the address that the program meant. Only the holder of the sockets answers,
and nothing leaves. The caller needs the capabilities over the namespace. Either all of it is made, or the error names
the step and nothing stays open.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from paddock_sandbox.profile import NetworkAccess
from paddock_sandbox.step_error import StepError

GATEWAY: Final = "198.18.0.1"
"""The address of the resolver, from the range reserved for tests of networks, so that no host has it."""

NAMES: Final = "198.18.0.0/15"
"""The addresses that names can stand for: that whole range."""

LOOKUP_PORT: Final = 53

_BACKLOG: Final = 128  # connections that wait to be accepted
_MOST_PORTS: Final = 200  # the kernel passes 253 descriptors at once
_LOOPBACK: Final = "lo"

# From <linux/netlink.h>, <linux/rtnetlink.h> and <linux/if.h>.
_AF_NETLINK: Final = 16
_NETLINK_ROUTE: Final = 0
_HEADER: Final = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
_REQUEST: Final = 0x01
_ACKNOWLEDGE: Final = 0x04
_EXCLUSIVE: Final = 0x200
_CREATE: Final = 0x400
_ERROR: Final = 2
_NUMBER: Final = struct.Struct("=i")
_ANSWER_BYTES: Final = 1 << 12
_NEW_LINK: Final = 16
_LINK: Final = struct.Struct("=BxHiII")  # family, type, index, flags, which flags to change
_UP: Final = 0x1
_NEW_ROUTE: Final = 24
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, bits of target and source, tos, table, origin, scope, type, flags
_TABLE_LOCAL: Final = 255
_ORIGIN_BOOT: Final = 3
_SCOPE_HOST: Final = 254
_TYPE_LOCAL: Final = 2
_DEVICE: Final = struct.Struct("=HHi")  # an attribute: its length, RTA_OIF, an index
_RTA_OIF: Final = 4


def open_network(access: NetworkAccess) -> list[socket.socket]:
    """Make the network and return its sockets: the one for looking up names, then a listener for each port, in order.

    For a process that serves and has no ports, there is the loopback alone, and no socket.

    Raises:
        StepError: a step was refused.
    """
    if len(access.ports) > _MOST_PORTS:
        raise StepError("listeners", errno.E2BIG, f"{len(access.ports)} ports; there can be {_MOST_PORTS}")
    is_alone = access.serves and not access.ports
    _open_loopback(is_everywhere=not is_alone)
    if is_alone:
        return []
    with ExitStack() as opened:
        with _naming("socket for names", "CAP_NET_BIND_SERVICE"):
            sockets = [opened.enter_context(_bound(socket.SOCK_DGRAM, GATEWAY, LOOKUP_PORT))]
        sockets += [opened.enter_context(_listener(port)) for port in access.ports]
        opened.pop_all()
    return sockets


def _open_loopback(*, is_everywhere: bool) -> None:
    """Set the loopback up, and make every address local on it."""
    with _naming("netlink"):
        netlink = socket.socket(_AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE)
    with netlink:
        with _naming("loopback", "CAP_NET_ADMIN"):
            loopback = socket.if_nametoindex(_LOOPBACK)
            _request(netlink, _NEW_LINK, 0, _LINK.pack(0, 0, loopback, _UP, _UP))
        if not is_everywhere:
            return
        with _naming("route", "CAP_NET_ADMIN"):
            everything = _ROUTE.pack(
                socket.AF_INET, 0, 0, 0, _TABLE_LOCAL, _ORIGIN_BOOT, _SCOPE_HOST, _TYPE_LOCAL, 0
            ) + _DEVICE.pack(_DEVICE.size, _RTA_OIF, loopback)
            _request(netlink, _NEW_ROUTE, _CREATE | _EXCLUSIVE, everything)


def _request(netlink: socket.socket, kind: int, flags: int, body: bytes) -> None:
    """Ask for one change and raise the kernel's error, if any."""
    netlink.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | _ACKNOWLEDGE | flags, 0, 0) + body)
    # The answer is there before sending returns.
    answer = netlink.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)
    if len(answer) < _HEADER.size + _NUMBER.size or _HEADER.unpack_from(answer)[1] != _ERROR:
        raise OSError(errno.EPROTO, "the kernel's answer is none to what it was asked")
    (number,) = _NUMBER.unpack_from(answer, _HEADER.size)
    if number:
        raise OSError(-number, os.strerror(-number))


def _listener(port: int) -> socket.socket:
    with _naming(f"listener at port {port}", "CAP_NET_BIND_SERVICE"):
        listener = _bound(socket.SOCK_STREAM, "0.0.0.0", port)  # noqa: S104 - the network has no other user
        try:
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener


def _bound(kind: int, address: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK)  # who listens has an event loop
    try:
        bound.bind((address, port))
    except BaseException:
        bound.close()
        raise
    return bound


@contextmanager
def _naming(step: str, capability: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        number, reason = error.errno or 0, error.strerror or str(error)
        if capability and number in (errno.EPERM, errno.EACCES):
            reason += f"; it takes {capability} over the network namespace"
        raise StepError(step, number, reason) from error
