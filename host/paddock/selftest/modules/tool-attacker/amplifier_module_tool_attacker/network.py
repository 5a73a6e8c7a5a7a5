"""Attacks over the network and over sockets of the machine itself."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .way import Way

_SECONDS = 2.0


def connect_to_a_port_of_the_machine(ports: Mapping[str, Sequence[Any]]) -> Iterator[Way]:
    """Talk to services, each given as a name, a host and a port."""
    for name, (host, port) in ports.items():
        yield f"TCP to {name}", partial(_connected_to_port, host, port)
        yield f"UDP to {name}", partial(_sent_to_port, host, port)


def find_a_route_to_the_outside(addresses: Sequence[str]) -> Iterator[Way]:
    """Ask the kernel for a route to addresses; connecting a datagram socket sends nothing."""
    for address in addresses:
        yield address, partial(_route_to, address)


def open_sockets(kinds: Sequence[Sequence[Any]]) -> Iterator[Way]:
    """Make sockets of every family, each given as a name, a family, a type and a protocol."""
    for name, family, kind, protocol in kinds:
        yield name, partial(_opened, family, kind, protocol)


def serve_the_network() -> Iterator[Way]:
    """Wait for connections, from the machine or from elsewhere."""
    yield "IPv4", lambda: _listening(socket.AF_INET, "0.0.0.0")  # noqa: S104 - that is the attack
    yield "IPv6", lambda: _listening(socket.AF_INET6, "::")


def connect_to_an_abstract_socket(stream: str, datagram: str) -> Iterator[Way]:
    """Connect to sockets without a place in the file system and so without permissions; X11 and D-Bus have such."""
    yield "stream", lambda: _connected_to_name(f"\0{stream}")
    yield "datagram", lambda: _sent_to_name(f"\0{datagram}", socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    yield "datagram, from a pair", lambda: _sent_to_name(f"\0{datagram}", _half_of_a_pair())


def connect_to_an_agent(stream: str, datagram: str) -> Iterator[Way]:
    """Connect to sockets in the file system, such as those of docker, of key agents and of the system's log."""
    yield "stream", lambda: _connected_to_name(stream)
    yield "datagram", lambda: _sent_to_name(datagram, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    # A process that needs pairs of sockets, as event loops do, can send to any name with them.
    yield "datagram, from a pair", lambda: _sent_to_name(datagram, _half_of_a_pair())


def reach_what_others_listen_at(streams: Sequence[str], datagrams: Sequence[str]) -> Iterator[Way]:
    """Reach sockets in a folder by every call and every name that leads to them."""
    calls = {_connected_to_name: streams, _sent_a_datagram: datagrams, _sent_a_message: datagrams}
    for reach, paths in calls.items():
        for path in paths:
            what = f"{reach.__name__[1:].replace('_', ' ')}, {os.path.basename(path)}"
            yield what, partial(reach, path)
            yield f"{what}, by a symbolic link", partial(_by_another_name, os.symlink, reach, path)
            yield f"{what}, by a hard link", partial(_by_another_name, os.link, reach, path)
            yield f"{what}, by another name", partial(_by_another_name, os.rename, reach, path)


def _by_another_name(make: Callable[[str, str], None], reach: Callable[[str], str], path: str) -> str:
    with tempfile.TemporaryDirectory() as private:
        name = f"{path}.{make.__name__}" if make is not os.symlink else os.path.join(private, "link")
        make(path, name)
        try:
            return reach(name)
        finally:
            if make is os.rename:
                os.rename(name, path)
            else:
                os.unlink(name)


def _connected_to_port(host: str, port: int) -> str:
    with socket.create_connection((host, port), timeout=_SECONDS) as connection:
        return f"connected to {connection.getpeername()}"


def _sent_to_port(host: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        return f"sent {sender.sendto(b'attack', (host, port))} bytes"


def _route_to(address: str) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        one.connect((address, 80))
        return f"from {one.getsockname()[0]}"


def _opened(family: int, kind: int, protocol: int) -> str:
    with socket.socket(family, kind, protocol) as one:
        return f"opened as {one.fileno()}"


def _listening(family: int, host: str) -> str:
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.bind((host, 0))
        one.listen()
        return f"listens on port {one.getsockname()[1]}"


def _connected_to_name(name: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(name)
        return "connected"


def _half_of_a_pair() -> socket.socket:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    right.close()
    return left


def _sent_a_datagram(name: str) -> str:
    return _sent_to_name(name, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))


def _sent_a_message(name: str) -> str:
    with _half_of_a_pair() as sender:
        return f"sent {sender.sendmsg([b'attack'], [], 0, name)} bytes"


def _sent_to_name(name: str, sender: socket.socket) -> str:
    with sender:
        return f"sent {sender.sendto(b'attack', name)} bytes"
