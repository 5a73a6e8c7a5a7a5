"""The addresses of this machine and of networks that it has an interface in, as the kernel reports them now.

Addresses come and go with interfaces, so nothing is remembered: the kernel is asked each time, by netlink, which takes
no privilege. There are two questions, since either may find what the other does not: the addresses and prefixes of the
interfaces, and the route of a packet to the address. An address without a gateway on its route is a neighbour's.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_interface
from typing import Final

Address = IPv4Address | IPv6Address

# From <linux/netlink.h>, <linux/rtnetlink.h>, <linux/if_addr.h>.
_AF_NETLINK: Final = 16
_NETLINK_ROUTE: Final = 0
_HEADER: Final = struct.Struct("=IHHII")  # length, kind, flags, sequence, port
_REQUEST: Final = 0x01
_DUMP: Final = 0x300
_ERROR: Final = 2
_DONE: Final = 3
_NUMBER: Final = struct.Struct("=i")
_NEW_ADDRESS: Final = 20
_GET_ADDRESS: Final = 22
_ADDRESS: Final = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_IFA_ADDRESS: Final = 1  # the prefix's, or of a point-to-point link the other end's
_IFA_LOCAL: Final = 2
_NEW_ROUTE: Final = 24
_GET_ROUTE: Final = 26
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, bits of target and source, tos, table, origin, scope, type, flags
_MATCHED_ENTRY: Final = 0x2000  # RTM_F_FIB_MATCH: return the entry of the table, with its prefix, not the derived route
_RTA_DESTINATION: Final = 1
_RTA_GATEWAY: Final = 5
_RTA_MULTIPATH: Final = 9
_RTA_VIA: Final = 18
_RTN_UNICAST: Final = 1
_RTN_OF_OURS: Final = frozenset({2, 3, 4, 5})  # local, broadcast, anycast, multicast
_ATTRIBUTE: Final = struct.Struct("=HH")  # length, kind
_ATTRIBUTE_KIND: Final = 0x3FFF  # the upper bits are flags

_ANSWER_BYTES: Final = 1 << 16
_MOST_ANSWERS: Final = 4096  # datagrams; a host of many thousand containers has some hundred
_WAIT_SECONDS: Final = 2.0  # the kernel answers before it is read; never reached

# A route of fewer bits is a default route in parts (0.0.0.0/1 and 128.0.0.0/1 into a tunnel), and no network.
_FEWEST_BITS: Final = {4: 8, 6: 16}


def why_near(address: Address) -> str | None:
    """Return the kind of an address of this machine or a neighbour, in words that follow `is`; else None.

    Raises:
        OSError: it cannot be found out.
    """
    with socket.socket(_AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_ROUTE) as netlink:
        netlink.settimeout(_WAIT_SECONDS)
        return _by_interfaces(netlink, address) or _by_route(netlink, address)


def _by_interfaces(netlink: socket.socket, address: Address) -> str | None:
    near = None
    for kind, body in _asked(netlink, _GET_ADDRESS, _DUMP, _ADDRESS.pack(_family(address), 0, 0, 0, 0)):
        if kind != _NEW_ADDRESS:
            continue
        family, bits, *_ = _ADDRESS.unpack_from(body)
        if family != _family(address):
            continue
        for value in _attributes(body, _ADDRESS.size, (_IFA_ADDRESS, _IFA_LOCAL)):
            interface = ip_interface((value, bits))
            if interface.ip == address:
                near = "an address of this machine"
            elif address in interface.network and near is None:
                near = f"on {interface.network}, a network that this machine is in"
    return near


def _by_route(netlink: socket.socket, address: Address) -> str | None:
    packed = address.packed
    wanted = _ROUTE.pack(_family(address), len(packed) * 8, 0, 0, 0, 0, 0, 0, _MATCHED_ENTRY)
    wanted += _ATTRIBUTE.pack(_ATTRIBUTE.size + len(packed), _RTA_DESTINATION) + packed
    try:
        answers = list(_asked(netlink, _GET_ROUTE, 0, wanted))
    except OSError as error:
        if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            return None  # the connection will fail for that
        raise
    for kind, body in answers:
        if kind != _NEW_ROUTE:
            continue
        _, bits, _, _, _, _, _, route, _ = _ROUTE.unpack_from(body)
        if route in _RTN_OF_OURS:
            return "an address of this machine"
        is_passed_on = any(_attributes(body, _ROUTE.size, (_RTA_GATEWAY, _RTA_MULTIPATH, _RTA_VIA)))
        if route == _RTN_UNICAST and not is_passed_on and bits >= _FEWEST_BITS[address.version]:
            return "on a network that this machine is in"
    return None


def _family(address: Address) -> int:
    return socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6


def _asked(netlink: socket.socket, kind: int, flags: int, body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the body of each message in the kernel's answer."""
    netlink.send(_HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, 0, 0) + body)
    for _ in range(_MOST_ANSWERS):
        answer = netlink.recv(_ANSWER_BYTES)
        at = 0
        while at + _HEADER.size <= len(answer):
            size, answered, *_ = _HEADER.unpack_from(answer, at)
            if size < _HEADER.size or at + size > len(answer):
                raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
            message = answer[at + _HEADER.size : at + size]
            if answered == _DONE:
                return
            if answered == _ERROR:
                (number,) = _NUMBER.unpack_from(message)
                raise OSError(-number, os.strerror(-number))
            yield answered, message
            at += size + 3 & ~3
        if not flags:
            return  # one question, one answer
    raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))


def _attributes(body: bytes, at: int, kinds: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the values of the attributes of some kinds that follow the fixed part of a message."""
    while at + _ATTRIBUTE.size <= len(body):
        size, kind = _ATTRIBUTE.unpack_from(body, at)
        if size < _ATTRIBUTE.size or at + size > len(body):
            return
        if kind & _ATTRIBUTE_KIND in kinds:
            yield body[at + _ATTRIBUTE.size : at + size]
        at += size + 3 & ~3
