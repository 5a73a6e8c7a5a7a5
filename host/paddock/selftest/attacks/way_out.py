"""Attacks by modules with a grant for one service: on the rest of the network, and on the proxy that carries to it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from typing import Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import a_name_alone, a_named_service, every_public_host, one_service
from paddock.selftest.expected_failures import may_lack, needs
from paddock.selftest.testbed.network import BESIDE, METADATA
from paddock.selftest.testbed.testbed import AttackTestbed
from paddock_sandbox.network import GATEWAY, LOOKUP_PORT

# Besides the words for a closed port: an own network has no listener, or the proxy refused to carry.
_NOT_CARRIED: Final = frozenset(
    (
        "EPERM",
        "EACCES",
        "ENOENT",
        "EAFNOSUPPORT",
        "EPROTONOSUPPORT",
        "ENOTSUP",
        "ENETUNREACH",
        "ECONNREFUSED",
        "ECONNRESET",
        "EPIPE",
        "400",
        "403",
        "407",
    )
)
_NO_NAME: Final = may_lack("name of its own that leads to it", "ENODATA")
_LOOPBACK: Final = ("localhost", "LOCALHOST", "0.0.0.0", "127.1")  # noqa: S104 - connected to, and not listened at
_SCTP: Final = 132
_MPTCP: Final = 262
_SMC: Final = 43
_XDP: Final = 44


def _granted(testbed: AttackTestbed) -> dict[str, object]:
    return {"granted": list(testbed.network.service.address)}


def _others(testbed: AttackTestbed) -> dict[str, object]:
    places = (testbed.network.another, testbed.network.beside)
    return {**_granted(testbed), "others": [list(service.address) for service in places]}


def _clouds(testbed: AttackTestbed) -> dict[str, object]:
    return {**_granted(testbed), "spellings": list(clouds(testbed)), "straight": []}


def _stranger(testbed: AttackTestbed) -> dict[str, object]:
    return {**_granted(testbed), "stranger": testbed.network.stranger}


def _borrowed(testbed: AttackTestbed) -> dict[str, object]:
    return {"authority": testbed.network.vault.authority, "proxy": testbed.network.neighbours_proxy}


def _flooded(testbed: AttackTestbed) -> dict[str, object]:
    return {**_granted(testbed), "seconds": 0.6}


_attack = partial(Attack, family="way out", grants=one_service, refusals=_NOT_CARRIED)

WAY_OUT: Final = (
    _attack(
        "ways_out.connect_to_what_was_not_granted",
        "connects to other ports and addresses than the granted one",
        arguments=_others,
        marks=True,
    ),
    _attack(
        "network.connect_to_a_port_of_the_machine",
        "connects and sends to services of the machine, where one was granted",
        own_name="send_datagrams_beside_a_granted_service",
        arguments=lambda testbed: {"ports": dict(testbed.listeners.ports)},
        sign=Sign.MARKS,  # in a network of its own, sending always succeeds
        marks=True,
    ),
    _attack(
        "ways_out.spell_addresses_otherwise",
        "asks for addresses and names that were not granted, in spellings that some take for granted ones",
        arguments=lambda testbed: {
            **_granted(testbed),
            "spellings": list(spellings(testbed)),
            "straight": [
                *([host, testbed.network.service.address[1]] for host in ("2130706434", "0x7f.2", "0177.0.0.2")),
                *([host, testbed.network.another.address[1]] for host in _LOOPBACK),
            ],
        },
        marks=True,
    ),
    _attack(
        "ways_out.spell_addresses_otherwise",
        "asks for what clouds tell the machines in them, at the granted port",
        own_name="ask_for_a_clouds_credentials",
        arguments=_clouds,
        marks=True,
    ),
    _attack(
        "ways_out.spell_addresses_otherwise",
        "asks for the machine and its network in every spelling, where all public hosts were granted",
        own_name="reach_inside_where_every_public_host_is_granted",
        arguments=lambda testbed: {
            **_granted(testbed),
            "spellings": [*spellings(testbed), testbed.network.hidden.authority],
            "straight": [
                list(service.address)
                for service in (testbed.network.another, testbed.network.beside, testbed.network.hidden)
            ],
        },
        grants=every_public_host,
        marks=True,
    ),
    _attack(
        "ways_out.spell_addresses_otherwise",
        "asks for what clouds tell the machines in them, where all public hosts were granted",
        own_name="ask_for_a_clouds_credentials_where_every_public_host_is_granted",
        arguments=_clouds,
        grants=every_public_host,
        marks=True,
    ),
    _attack(
        "ways_out.follow_where_it_is_sent",
        "follows a redirection to the machine itself, where all public hosts were granted",
        own_name="follow_a_redirection_inside_where_every_public_host_is_granted",
        arguments=_granted,
        grants=every_public_host,
        marks=True,
    ),
    _attack(
        "ways_out.follow_where_it_is_sent",
        "follows a redirection of the granted service to one that was not granted",
        arguments=_granted,
        marks=True,
    ),
    _attack(
        "ways_out.connect_by_other_means",
        "connects by sending, from chosen devices and addresses, and with sockets that were connected elsewhere",
        arguments=_others,
        expected_failures=(needs("CAP_NET_RAW"), may_lack("TCP Fast Open", "ENOTSUP")),
        marks=True,
    ),
    _attack(
        "network.open_sockets",
        "makes sockets of every family but that of the granted service",
        own_name="open_other_sockets_beside_granted_ones",
        arguments=lambda testbed: {
            "kinds": [
                ["TCP over IPv6", socket.AF_INET6, socket.SOCK_STREAM, 0],
                ["UDP over IPv6", socket.AF_INET6, socket.SOCK_DGRAM, 0],
                ["MPTCP", socket.AF_INET, socket.SOCK_STREAM, _MPTCP],
                ["SCTP", socket.AF_INET, socket.SOCK_STREAM, _SCTP],
                ["SMC", _SMC, socket.SOCK_STREAM, 0],
                ["unix stream", socket.AF_UNIX, socket.SOCK_STREAM, 0],
                ["unix datagram", socket.AF_UNIX, socket.SOCK_DGRAM, 0],
                ["netlink", socket.AF_NETLINK, socket.SOCK_RAW, 0],
                ["virtual machines'", socket.AF_VSOCK, socket.SOCK_STREAM, 0],
                ["cryptography", socket.AF_ALG, socket.SOCK_SEQPACKET, 0],
                ["raw", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP],
                ["ICMP", socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP],
                ["packets", socket.AF_PACKET, socket.SOCK_RAW, 0],
                ["frames", _XDP, socket.SOCK_RAW, 0],
            ]
        },
        outside=Outside.ANSWERS_ONCE,
    ),
    _attack(
        "network.open_sockets",
        "makes a socket for datagrams, whose addresses no proxy would see",
        own_name="send_datagrams_at_all",
        arguments=lambda testbed: {"kinds": [["UDP", socket.AF_INET, socket.SOCK_DGRAM, 0]]},
        only_at=("landlock",),  # elsewhere it has a network of its own, for lookups
    ),
    _attack(
        "ways_out.be_reached",
        "waits for connections, also beside the listener of the host",
        arguments=_granted,
    ),
    _attack(
        "ways_out.open_a_listener_that_is_there",
        "looks for listeners among the descriptors of its own process and of the one that started it",
        arguments=_granted,
    ),
    _attack(
        "ways_out.ask_for_names",
        "looks up names that were not granted, with what it wants to tell in them",
        arguments=lambda testbed: {
            **_granted(testbed),
            "name": f"sent-to-whom-it-may-concern{testbed.network.suffix}",
            "servers": [list(testbed.listeners.ports["the loopback address"]), [GATEWAY, LOOKUP_PORT]],
        },
        outside_arguments=lambda testbed: {"servers": [list(testbed.listeners.ports["the loopback address"])]},
        marks=True,
    ),
    _attack(
        "ways_out.reach_by_a_name",
        "connects to a granted name that leads to the machine itself",
        own_name="reach_the_machine_by_a_name",
        arguments=lambda testbed: {"name": testbed.network.name, "port": testbed.network.hidden.address[1]},
        grants=a_name_alone,
        expected_failures=(_NO_NAME,),
        marks=True,
    ),
    _attack(
        "ways_out.name_another_server_in_tls",
        "begins TLS with the granted server for another one, as behind servers of many names",
        arguments=lambda testbed: {
            "name": testbed.network.name,
            "port": testbed.network.named.address[1],
            "other": testbed.network.stranger,
        },
        grants=a_named_service,
        sign=Sign.MARKS,
        expected_failures=(_NO_NAME,),
        marks=True,
    ),
    _attack(
        "smuggling.smuggle_requests",
        "asks the granted service for pages of another in requests that readers differ about",
        arguments=_stranger,
        sign=Sign.MARKS,
        marks=True,
    ),
    _attack(
        "smuggling.smuggle_requests_in_odd_spaces",
        "asks the granted service for pages of another in requests that only lenient servers take for any",
        arguments=_stranger,
        sign=Sign.MARKS,
        marks=True,
    ),
    _attack(
        "ways_out.borrow_anothers_proxy",
        "uses the proxy of another module, which sent it everything",
        arguments=_borrowed,
    ),
    _attack(
        "ways_out.borrow_anothers_proxy",
        "uses the proxy of another module, without a network grant of its own",
        own_name="borrow_a_proxy_without_a_network",
        arguments=_borrowed,
        grants=lambda testbed: {},
    ),
    _attack(
        "ways_out.pass_for_another_at_the_proxy",
        "asks the proxy without its token, and with others",
        arguments=lambda testbed: {**_granted(testbed), "authority": testbed.network.service.authority},
        only_at=("landlock",),  # elsewhere no other program can reach the listener
    ),
    _attack(
        "ways_out.reach_others_at_the_proxys_port",
        "connects to other addresses at the number that the proxy's port has",
        arguments=lambda testbed: {**_granted(testbed), "address": BESIDE},
        known={
            "landlock": "Landlock lets connections through by their port alone: any host can be reached at the one "
            "port that the host's proxy has"
        },
    ),
    _attack(
        "floods.flood_the_way_out",
        "connects as fast as it can, and hangs up",
        arguments=_flooded,
        outside_arguments=lambda testbed: {"seconds": 0.1},
        limits={"runtime_max": "10s"},  # a process of its own, and so a budget of its own
        sign=Sign.LAG,
    ),
    _attack(
        "floods.keep_the_way_out_busy",
        "holds hundreds of connections, and says something on each a letter at a time",
        arguments=_flooded,
        outside_arguments=lambda testbed: {"seconds": 0.1},
        limits={"runtime_max": "11s"},
        sign=Sign.LAG,
    ),
    _attack(
        "floods.flood_with_lookups",
        "looks up a name after the other, as fast as it can",
        arguments=lambda testbed: {
            **_flooded(testbed),
            "name": testbed.network.suffix.lstrip("."),
            "server": [GATEWAY, LOOKUP_PORT],
        },
        outside_arguments=lambda testbed: {
            "server": list(testbed.listeners.ports["the loopback address"]),
            "seconds": 0.1,
        },
        limits={"runtime_max": "12s"},
        sign=Sign.LAG,
        only_at=("ns", "bwrap"),  # where there are lookups
    ),
)


def spellings(testbed: AttackTestbed) -> Iterator[str]:
    """Yield spellings that lead to a service without a grant for some readers, but not for others."""
    network = testbed.network
    granted, port = network.service.authority, network.service.address[1]
    other = network.another.address[1]
    yield from (f"{host}:{port}" for host in _BESIDE)
    yield from (f"{host}:{other}" for host in _LOOPBACK_SPELLINGS)
    for owned in (
        f"127.0.0.1{network.suffix}",
        f"127.0.0.1:{port}{network.suffix}",
        f"localhost{network.suffix}",
        f"metadata.google.internal{network.suffix}",
    ):
        yield f"{owned}:{port}"
    yield f"{granted}@127.0.0.2:{port}"
    yield f"127.0.0.1@127.0.0.2:{port}"
    yield f"127.0.0.1%40127.0.0.2:{port}"
    yield f"127.0.0.2:{port}#@{granted}"
    yield f"127.0.0.2:{port}?@{granted}"
    yield f"127.0.0.2:{port}%23@{granted}"
    yield f"127.0.0.1\\@127.0.0.2:{port}"
    yield f"127.0.0.2:{port}%00.{granted}"
    yield f"127.0.0.2:{port + (1 << 16)}"
    yield f"127.0.0.2:+{port}"
    yield f"127.0.0.2:0{port}"
    yield f"127.0.0.1:{other}#:{port}"


def clouds(testbed: AttackTestbed) -> Iterator[str]:
    """Yield addresses where clouds give credentials to every caller, in spellings that some readers accept."""
    port = testbed.network.service.address[1]
    yield from (f"{host}:{port}" for host in METADATA)


# Of 127.0.0.2, which is not granted.
_BESIDE = (
    "127.0.0.2",
    "127.0.0.2.",
    "2130706434",
    "0x7f000002",
    "0X7F.0.0.2",
    "0x7f.2",
    "017700000002",
    "0177.0.0.2",
    "0177.0x0.2",
    "127.2",
    "127.0.2",
    "[::ffff:127.0.0.2]",
    "[::ffff:7f00:2]",
    "[0:0:0:0:0:FFFF:127.0.0.2]",
    "127\u30020\u30020\u30022",
    "\uff11\uff12\uff17.0.0.2",
    "127.0.0.2%20",
    "%31%32%37.0.0.2",
)


# Of 127.0.0.1, of which another port was granted.
_LOOPBACK_SPELLINGS = (
    "127.0.0.1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "granted.localhost",
    "0.0.0.0",  # noqa: S104 - asked for, and not listened at
    "0",
    "2130706433",
    "127.1",
    "[::ffff:127.0.0.1]",
)
