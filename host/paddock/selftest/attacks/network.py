"""Attacks over the network, and over the sockets of the machine."""

from __future__ import annotations

import socket
from functools import partial
from typing import Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import a_loopback, with_a_loopback, workspace
from paddock.selftest.expected_failures import may_lack, needs

_NO_SUCH_SOCKETS: Final = may_lack("such sockets", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EINVAL")
_CLOSED: Final = frozenset(("EPERM", "EACCES", "EAFNOSUPPORT", "ENETUNREACH", "ENOENT"))

_attack = partial(Attack, family="network", refusals=_CLOSED)
_by_who_serves = partial(_attack, grants=a_loopback, only_at=("ns", "bwrap"), refusals=_CLOSED | {"EXDEV"})

_ALL: Final = (
    _attack(
        "network.connect_to_a_port_of_the_machine",
        "connects to services of the machine",
        arguments=lambda testbed: {"ports": dict(testbed.listeners.ports)},
        marks=True,
    ),
    _attack(
        "network.find_a_route_to_the_outside",
        "looks for a way to other machines and to a cloud's metadata",
        arguments=lambda testbed: {"addresses": ["169.254.169.254", "198.51.100.1", "fd00:ec2::254", "2001:db8::1"]},
        outside=Outside.ANSWERS_ONCE,
        expected_failures=(may_lack("way to the network", "ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT"),),
    ),
    _attack(
        "network.open_sockets",
        "makes sockets of every family",
        arguments=lambda testbed: {
            "kinds": [
                ["TCP", socket.AF_INET, socket.SOCK_STREAM, 0],
                ["TCP over IPv6", socket.AF_INET6, socket.SOCK_STREAM, 0],
                ["MPTCP", socket.AF_INET, socket.SOCK_STREAM, 262],
                ["UDP", socket.AF_INET, socket.SOCK_DGRAM, 0],
                ["unix stream", socket.AF_UNIX, socket.SOCK_STREAM, 0],
                ["unix datagram", socket.AF_UNIX, socket.SOCK_DGRAM, 0],
                ["netlink", socket.AF_NETLINK, socket.SOCK_RAW, 0],
                ["virtual machines'", socket.AF_VSOCK, socket.SOCK_STREAM, 0],
                ["cryptography", socket.AF_ALG, socket.SOCK_SEQPACKET, 0],
            ]
        },
        expected_failures=(_NO_SUCH_SOCKETS, may_lack("MPTCP", "ENOPROTOOPT")),
    ),
    _attack(
        "network.open_sockets",
        "makes sockets that see and forge packets",
        own_name="open_raw_sockets",
        arguments=lambda testbed: {
            "kinds": [
                ["raw", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP],
                ["packets", socket.AF_PACKET, socket.SOCK_RAW, 0],
                ["ICMP", socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP],
            ]
        },
        outside=Outside.ANSWERS_ONCE,
        expected_failures=(needs("CAP_NET_RAW"), _NO_SUCH_SOCKETS),
    ),
    _attack(
        "network.connect_to_an_abstract_socket",
        "connects to sockets without a place, as X11 and D-Bus have",
        arguments=lambda testbed: {
            "stream": testbed.listeners.abstract_agent,
            "datagram": testbed.listeners.abstract_log,
        },
        refusals=_CLOSED | {"ECONNREFUSED"},
        marks=True,
    ),
    _attack(
        "network.connect_to_an_agent",
        "connects to sockets in the file system, as docker and ssh-agent have",
        arguments=lambda testbed: {"stream": str(testbed.listeners.agent), "datagram": str(testbed.listeners.log)},
        marks=True,
    ),
    _attack(
        "network.connect_to_an_agent",
        "connects to sockets in a folder that it may write to",
        own_name="connect_to_an_agent_in_a_granted_folder",
        arguments=lambda testbed: {
            "stream": str(testbed.listeners.granted_agent),
            "datagram": str(testbed.listeners.granted_log),
        },
        grants=workspace,
        marks=True,
    ),
    _attack(
        "network.serve_the_network",
        "waits for connections from elsewhere",
        expected_failures=(may_lack("IPv6", "EAFNOSUPPORT", "EADDRNOTAVAIL"),),
    ),
    _by_who_serves(
        "network.reach_what_others_listen_at",
        "connects to docker's, an agent's and a control socket in a folder that it may write to",
        arguments=lambda testbed: testbed.listeners.look_alikes(),
        marks=True,
    ),
    _by_who_serves(
        "network.reach_what_others_listen_at",
        "connects to such sockets that were made after it started",
        own_name="reach_what_others_listen_at_later",
        arguments=lambda testbed: testbed.listeners.later_look_alikes(),
        marks=True,
    ),
)
# A datagram to the machine's port is sent, and lost inside; the stage shows whether it arrived.
_NAMES: Final = {
    "connect_to_a_port_of_the_machine": "connect_to_a_port_from_a_loopback",
    "connect_to_an_abstract_socket": "connect_to_an_abstract_socket_from_a_loopback",
}

NETWORK: Final = (*_ALL, *with_a_loopback(_ALL, _NAMES, sign=Sign.MARKS))
