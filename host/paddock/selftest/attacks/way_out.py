"""Attacks by modules with a grant for one service: on the rest of the network, and on the proxy that carries to it."""

from __future__ import annotations

import socket
from typing import Final

from paddock.selftest.attack import Attack, Outside, Sign
from paddock.selftest.attacks.grants import a_name_alone, a_named_service, every_public_host, one_service
from paddock.selftest.attacks.spellings import clouds, spellings
from paddock.selftest.expected_failures import may_lack, needs
from paddock.selftest.testbed.neighbourhood import BESIDE
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
_FLOOD_SECONDS: Final = 0.6
_SCTP: Final = 132
_MPTCP: Final = 262
_SMC: Final = 43
_XDP: Final = 44


def _granted(testbed: AttackTestbed) -> list[object]:
    return list(testbed.network.service.address)


WAY_OUT: Final = (
    Attack(
        "connect_to_what_was_not_granted",
        "way out",
        "ways_out.connect_to_what_was_not_granted",
        "connects to other ports and addresses than the granted one",
        arguments=lambda testbed: {
            "granted": _granted(testbed),
            "others": [list(testbed.network.another.address), list(testbed.network.beside.address)],
        },
        grants=one_service,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "send_datagrams_beside_a_granted_service",
        "way out",
        "network.connect_to_a_port_of_the_machine",
        "connects and sends to services of the machine, where one was granted",
        arguments=lambda testbed: {"ports": dict(testbed.doors.ports)},
        grants=one_service,
        sign=Sign.MARKS,  # in a network of its own, sending always succeeds
        marks=True,
    ),
    Attack(
        "spell_addresses_otherwise",
        "way out",
        "ways_out.spell_addresses_otherwise",
        "asks for addresses and names that were not granted, in spellings that some take for granted ones",
        arguments=lambda testbed: {
            "granted": _granted(testbed),
            "spellings": list(spellings(testbed)),
            "straight": [
                *([host, testbed.network.service.address[1]] for host in ("2130706434", "0x7f.2", "0177.0.0.2")),
                *([host, testbed.network.another.address[1]] for host in _LOOPBACK),
            ],
        },
        grants=one_service,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "ask_for_a_clouds_credentials",
        "way out",
        "ways_out.spell_addresses_otherwise",
        "asks for what clouds tell the machines in them, at the granted port",
        arguments=lambda testbed: {"granted": _granted(testbed), "spellings": list(clouds(testbed)), "straight": []},
        grants=one_service,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "reach_inside_where_every_public_host_is_granted",
        "way out",
        "ways_out.spell_addresses_otherwise",
        "asks for the machine and its network in every spelling, where all public hosts were granted",
        arguments=lambda testbed: {
            "granted": _granted(testbed),
            "spellings": [*spellings(testbed), testbed.network.hidden.authority],
            "straight": [
                list(service.address)
                for service in (testbed.network.another, testbed.network.beside, testbed.network.hidden)
            ],
        },
        grants=every_public_host,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "ask_for_a_clouds_credentials_where_every_public_host_is_granted",
        "way out",
        "ways_out.spell_addresses_otherwise",
        "asks for what clouds tell the machines in them, where all public hosts were granted",
        arguments=lambda testbed: {"granted": _granted(testbed), "spellings": list(clouds(testbed)), "straight": []},
        grants=every_public_host,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "follow_a_redirection_inside_where_every_public_host_is_granted",
        "way out",
        "ways_out.follow_where_it_is_sent",
        "follows a redirection to the machine itself, where all public hosts were granted",
        arguments=lambda testbed: {"granted": _granted(testbed)},
        grants=every_public_host,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "follow_where_it_is_sent",
        "way out",
        "ways_out.follow_where_it_is_sent",
        "follows a redirection of the granted service to one that was not granted",
        arguments=lambda testbed: {"granted": _granted(testbed)},
        grants=one_service,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "connect_by_other_means",
        "way out",
        "ways_out.connect_by_other_means",
        "connects by sending, from chosen devices and addresses, and with sockets that were connected elsewhere",
        arguments=lambda testbed: {
            "granted": _granted(testbed),
            "others": [list(testbed.network.another.address), list(testbed.network.beside.address)],
        },
        grants=one_service,
        refusals=_NOT_CARRIED,
        expected_failures=(needs("CAP_NET_RAW"), may_lack("TCP Fast Open", "ENOTSUP")),
        marks=True,
    ),
    Attack(
        "open_other_sockets_beside_granted_ones",
        "way out",
        "network.open_sockets",
        "makes sockets of every family but that of the granted service",
        arguments=lambda stage: {
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
        grants=one_service,
        outside=Outside.ANSWERS_ONCE,
        refusals=_NOT_CARRIED,
    ),
    Attack(
        "send_datagrams_at_all",
        "way out",
        "network.open_sockets",
        "makes a socket for datagrams, whose addresses no proxy would see",
        arguments=lambda stage: {"kinds": [["UDP", socket.AF_INET, socket.SOCK_DGRAM, 0]]},
        grants=one_service,
        refusals=_NOT_CARRIED,
        only_at=("landlock",),  # elsewhere it has a network of its own, for lookups
    ),
    Attack(
        "be_reached",
        "way out",
        "ways_out.be_reached",
        "waits for connections, also beside the listener of the host",
        arguments=lambda testbed: {"granted": _granted(testbed)},
        grants=one_service,
        refusals=_NOT_CARRIED,
    ),
    Attack(
        "open_a_listener_that_is_there",
        "way out",
        "ways_out.open_a_listener_that_is_there",
        "looks for listeners among the descriptors of its own process and of the one that started it",
        arguments=lambda testbed: {"granted": _granted(testbed)},
        grants=one_service,
        refusals=_NOT_CARRIED,
    ),
    Attack(
        "ask_for_names",
        "way out",
        "ways_out.ask_for_names",
        "looks up names that were not granted, with what it wants to tell in them",
        arguments=lambda testbed: {
            "granted": _granted(testbed),
            "name": f"sent-to-whom-it-may-concern{testbed.network.suffix}",
            "servers": [list(testbed.doors.ports["the loopback address"]), [GATEWAY, LOOKUP_PORT]],
        },
        outside_arguments=lambda testbed: {
            "granted": _granted(testbed),
            "name": f"sent-to-whom-it-may-concern{testbed.network.suffix}",
            "servers": [list(testbed.doors.ports["the loopback address"])],
        },
        grants=one_service,
        refusals=_NOT_CARRIED,
        marks=True,
    ),
    Attack(
        "reach_the_machine_by_a_name",
        "way out",
        "ways_out.reach_by_a_name",
        "connects to a granted name that leads to the machine itself",
        arguments=lambda testbed: {"name": testbed.network.name, "port": testbed.network.hidden.address[1]},
        grants=a_name_alone,
        refusals=_NOT_CARRIED,
        expected_failures=(_NO_NAME,),
        marks=True,
    ),
    Attack(
        "name_another_server_in_tls",
        "way out",
        "ways_out.name_another_server_in_tls",
        "begins TLS with the granted server for another one, as behind servers of many names",
        arguments=lambda testbed: {
            "name": testbed.network.name,
            "port": testbed.network.named.address[1],
            "other": testbed.network.stranger,
        },
        grants=a_named_service,
        sign=Sign.MARKS,
        refusals=_NOT_CARRIED,
        expected_failures=(_NO_NAME,),
        marks=True,
    ),
    Attack(
        "smuggle_requests",
        "way out",
        "smuggling.smuggle_requests",
        "asks the granted service for pages of another in requests that readers differ about",
        arguments=lambda testbed: {"granted": _granted(testbed), "stranger": testbed.network.stranger},
        grants=one_service,
        sign=Sign.MARKS,
        marks=True,
    ),
    Attack(
        "smuggle_requests_in_odd_spaces",
        "way out",
        "smuggling.smuggle_requests_in_odd_spaces",
        "asks the granted service for pages of another in requests that only lenient servers take for any",
        arguments=lambda testbed: {"granted": _granted(testbed), "stranger": testbed.network.stranger},
        grants=one_service,
        sign=Sign.MARKS,
        marks=True,
    ),
    Attack(
        "borrow_anothers_proxy",
        "way out",
        "ways_out.borrow_anothers_proxy",
        "uses the proxy of another module, which sent it everything",
        arguments=lambda testbed: {
            "authority": testbed.network.vault.authority,
            "proxy": testbed.network.neighbours_proxy,
        },
        grants=one_service,
        refusals=_NOT_CARRIED,
    ),
    Attack(
        "borrow_a_proxy_without_a_network",
        "way out",
        "ways_out.borrow_anothers_proxy",
        "uses the proxy of another module, without a network grant of its own",
        arguments=lambda testbed: {
            "authority": testbed.network.vault.authority,
            "proxy": testbed.network.neighbours_proxy,
        },
        refusals=_NOT_CARRIED,
    ),
    Attack(
        "pass_for_another_at_the_proxy",
        "way out",
        "ways_out.pass_for_another_at_the_proxy",
        "asks the proxy without its token, and with others",
        arguments=lambda testbed: {"granted": _granted(testbed), "authority": testbed.network.service.authority},
        grants=one_service,
        refusals=_NOT_CARRIED,
        only_at=("landlock",),  # elsewhere no other program can reach the listener
    ),
    Attack(
        "reach_others_at_the_proxys_port",
        "way out",
        "ways_out.reach_others_at_the_proxys_port",
        "connects to other addresses at the number that the proxy's port has",
        arguments=lambda testbed: {"granted": _granted(testbed), "address": BESIDE},
        grants=one_service,
        refusals=_NOT_CARRIED,
        known={
            "landlock": "Landlock lets connections through by their port alone: any host can be reached at the one "
            "port that the host's proxy has"
        },
    ),
    Attack(
        "flood_the_way_out",
        "way out",
        "floods.flood_the_way_out",
        "connects as fast as it can, and hangs up",
        arguments=lambda testbed: {"granted": _granted(testbed), "seconds": _FLOOD_SECONDS},
        outside_arguments=lambda testbed: {"granted": _granted(testbed), "seconds": 0.1},
        grants=one_service,
        limits={"runtime_max": "10s"},  # a process of its own, and so a budget of its own
        sign=Sign.LAG,
    ),
    Attack(
        "keep_the_way_out_busy",
        "way out",
        "floods.keep_the_way_out_busy",
        "holds hundreds of connections, and says something on each a letter at a time",
        arguments=lambda testbed: {"granted": _granted(testbed), "seconds": _FLOOD_SECONDS},
        outside_arguments=lambda testbed: {"granted": _granted(testbed), "seconds": 0.1},
        grants=one_service,
        limits={"runtime_max": "11s"},
        sign=Sign.LAG,
    ),
    Attack(
        "flood_with_lookups",
        "way out",
        "floods.flood_with_lookups",
        "looks up a name after the other, as fast as it can",
        arguments=lambda testbed: {
            "granted": _granted(testbed),
            "name": testbed.network.suffix.lstrip("."),
            "server": [GATEWAY, LOOKUP_PORT],
            "seconds": _FLOOD_SECONDS,
        },
        outside_arguments=lambda testbed: {
            "granted": _granted(testbed),
            "name": testbed.network.suffix.lstrip("."),
            "server": list(testbed.doors.ports["the loopback address"]),
            "seconds": 0.1,
        },
        grants=one_service,
        limits={"runtime_max": "12s"},
        sign=Sign.LAG,
        only_at=("ns", "bwrap"),  # where there are lookups
    ),
)
