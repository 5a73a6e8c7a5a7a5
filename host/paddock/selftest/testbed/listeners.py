"""Sockets that listen on the machine and should never receive anything from an attacker.

A connection waits in a listener's queue, and a datagram in its buffer, until they are checked: no process has to run to
notice them.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_QUEUE: Final = 16
_DOCUMENTATION: Final = ("198.51.100.1", 9)  # an address that no machine has; connecting a datagram sends nothing


class ForbiddenListeners:
    """Listeners on ports, in the file system below given folders, and under abstract names that contain `mark`.

    They close with `stack`.
    """

    def __init__(self, stack: contextlib.ExitStack, mark: str, outside: Path, workspace: Path) -> None:
        stack.callback(self._close)
        self._sockets: dict[str, socket.socket] = {}
        self.agent, self.log = outside / "agent.sock", outside / "log.sock"
        self.granted_agent, self.granted_log = workspace / "agent.sock", workspace / "log.sock"
        self._workspace = workspace
        self.abstract_agent, self.abstract_log = f"paddock-agent-{mark}", f"paddock-log-{mark}"
        self._open()

    @property
    def ports(self) -> Mapping[str, tuple[str, int]]:
        """The addresses of the ports, by name: a host and a number, the same for TCP and UDP."""
        return {
            name.removeprefix("TCP on "): one.getsockname()[:2]
            for name, one in self._sockets.items()
            if name.startswith("TCP on ")
        }

    @property
    def listener(self) -> int:
        """The descriptor of one listening socket."""
        return self._sockets["TCP on the loopback address"].fileno()

    def look_alikes(self) -> dict[str, list[str]]:
        """Return the sockets in a granted folder, as a module may find them there: connected to, and sent to."""
        return {
            "streams": [str(self.granted_agent), str(self._workspace / "docker.sock")],
            "datagrams": [str(self.granted_log), str(self._workspace / "control.sock")],
        }

    def later_look_alikes(self) -> dict[str, list[str]]:
        """Return sockets that are made now in a granted folder."""
        stream, datagram = self._workspace / "later.sock", self._workspace / "later-control.sock"
        for path in (stream, datagram):
            path.unlink(missing_ok=True)
        self._open_in_pairs("a later socket in a granted folder", stream, datagram)
        return {"streams": [str(stream)], "datagrams": [str(datagram)]}

    def knocks(self) -> tuple[str, ...]:
        """Return the reached listeners, and reset them."""
        return tuple(f"somebody came to {name}" for name, one in self._sockets.items() if arrived(one))

    def _open(self) -> None:
        for name, host in _addresses().items():
            self._open_ports(name, host)
        for name, stream, datagram in (
            ("an agent's socket", self.agent, self.log),
            ("a socket in a granted folder", self.granted_agent, self.granted_log),
            ("docker's in a granted folder", self._workspace / "docker.sock", self._workspace / "control.sock"),
            ("an abstract socket", f"\0{self.abstract_agent}", f"\0{self.abstract_log}"),
        ):
            self._open_in_pairs(name, stream, datagram)

    def _open_in_pairs(self, name: str, stream: Path | str, datagram: Path | str) -> None:
        for kind, address in ((socket.SOCK_STREAM, stream), (socket.SOCK_DGRAM, datagram)):
            one = self._keep(f"{name} ({kind.name})", socket.socket(socket.AF_UNIX, kind))
            one.bind(os.fspath(address))
            if isinstance(address, Path):
                address.chmod(0o777)
            if kind == socket.SOCK_STREAM:
                one.listen(_QUEUE)

    def _open_ports(self, name: str, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            with socket.socket(family) as probe:
                probe.bind((host, 0))
        except OSError:
            return  # a machine without addresses of this family
        listener = self._keep(f"TCP on {name}", socket.socket(family))
        listener.bind((host, 0))
        listener.listen(_QUEUE)
        receiver = self._keep(f"UDP on {name}", socket.socket(family, socket.SOCK_DGRAM))
        receiver.bind((host, listener.getsockname()[1]))

    def _close(self) -> None:
        for one in self._sockets.values():
            one.close()

    def _keep(self, name: str, one: socket.socket) -> socket.socket:
        if name in self._sockets:
            self._sockets[name].close()
        self._sockets[name] = one
        one.setblocking(False)
        return one


def _addresses() -> dict[str, str]:
    addresses = {"the loopback address": "127.0.0.1", "the loopback address of IPv6": "::1"}
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as requester:
        requester.connect(_DOCUMENTATION)
        addresses["the machine's own address"] = requester.getsockname()[0]
    return addresses


def arrived(one: socket.socket) -> int:
    """Return how many connections or messages wait at a socket that does not block, and drop them."""
    count = 0
    while True:
        try:
            if one.type == socket.SOCK_STREAM:
                one.accept()[0].close()
            else:
                one.recv(100)
        except BlockingIOError:
            return count
        count += 1
