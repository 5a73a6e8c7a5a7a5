"""The network on the stage: services that may be granted, others beside them, and a proxy to all of them.

They are: the granted service, its neighbours (another port, another address with the same port), a service that a key
is for, a proxy to that one which hides the key in a wrong way, and a service with a name. Everything is on the
machine's own loopback; nothing leaves it.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final, Self

from anyio.from_thread import start_blocking_portal

from paddock.egress.addresses import is_public
from paddock.plan.host_name import parse_host
from paddock.plan.problems import NotAcceptedError
from paddock.selftest.testbed.proxies import LeakyRedactor, OpenProxy
from paddock.selftest.testbed.service import ForbiddenText, TargetService, settle

LOOPBACK: Final = "127.0.0.1"
BESIDE: Final = "127.0.0.2"  # the machine's own as well, but another address in any comparison

METADATA: Final = (
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "[::ffff:169.254.169.254]",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "[fd00:ec2::254]",
    "[64:ff9b::169.254.169.254]",
    "[2002:a9fe:a9fe::]",
)
"""Addresses where clouds give credentials to every caller, in some of their spellings."""

_CLOUDS: Final = dict.fromkeys((host.strip("[]").rstrip(".").lower() for host in METADATA), BESIDE)
_TRIES: Final = 20


class AttackNetwork:
    """All services, with names and texts that contain `mark`; only one of them is to receive `key`.

    They end with `stack`.
    """

    def __init__(self, stack: contextlib.ExitStack, mark: str, key: str) -> None:
        self.stranger = f"stranger-{mark}.invalid"
        """A server that there is not: what asks for it at another one says so to that one."""
        self.suffix = f".{mark}.invalid"
        """The end of names that lead wherever their owner likes."""
        self.neighbours_proxy = ""
        """The proxy of another module, which it gave away; outside, the one that there is."""
        self._stack = stack
        self._inquiries = stack.enter_context(LookupLog(mark))
        granted, beside = self._same_port_twice()
        unwanted = {
            "who is meant by somebody else": ForbiddenText(self.stranger.encode()),
            "a key": ForbiddenText(key.encode()),
        }
        another = self._listener(LOOPBACK)
        where = "http://{}:{}/".format(*another.getsockname()[:2])
        self.service = TargetService("the granted service", granted, unwanted=unwanted, is_open=True, elsewhere=where)
        self.beside = TargetService("the same port of another address", beside)
        self.another = TargetService("another port of the machine", another)
        for_heads = {**unwanted, "a key": ForbiddenText(key.encode(), is_for_heads=True)}
        self.vault = TargetService("the service with a key", self._listener(LOOPBACK), unwanted=for_heads, is_open=True)
        self.name, address = _own_name()
        self.named = TargetService("the service with a name", self._listener(address), unwanted=unwanted, is_open=True)
        self.hidden = TargetService("a service that only a name was granted of", self._listener(address))
        self._services = (self.service, self.beside, self.another, self.vault, self.named, self.hidden)
        ports = frozenset(service.address[1] for service in self._services)
        self.redactor = LeakyRedactor(self._listener(LOOPBACK), self.vault.address, key.encode())
        self.proxy = OpenProxy(
            self._listener(LOOPBACK), ports, {self.suffix: BESIDE, ".localhost": LOOPBACK, **_CLOUDS}
        )
        # In a thread of its own, so that they answer while a host does not.
        self._portal = stack.enter_context(start_blocking_portal("asyncio"))
        for server in (*self._services, self.redactor, self.proxy):
            self._portal.call(server.open)
            stack.callback(self._portal.call, server.close)

    def give_away(self, proxy: str) -> None:
        """Take the proxy of another module, which gave it away, as one for attacks to borrow."""
        self.neighbours_proxy = proxy

    def knocks(self) -> tuple[str, ...]:
        """Return the noticed accesses, and forget them."""
        self._portal.call(settle)
        return (*(knock for service in self._services for knock in service.knocks()), *self._inquiries.made())

    def _same_port_twice(self) -> tuple[socket.socket, socket.socket]:
        """Return listeners at two addresses with the same port."""
        for _ in range(_TRIES):
            first = self._listener(LOOPBACK)
            with contextlib.suppress(OSError):
                return first, self._listener(BESIDE, first.getsockname()[1])
        raise OSError("no port is free at both loopback addresses")

    def _listener(self, host: str, port: int = 0) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = self._stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        listener.bind((host, port))
        return listener


def _own_name() -> tuple[str, str]:
    """Return a name that leads to the machine, and its address; an empty name if there is none."""
    return next(_own_names(), ("", LOOPBACK))


def _own_names() -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys((socket.gethostname(), socket.getfqdn())):
        with contextlib.suppress(OSError, UnicodeError, NotAcceptedError):
            known = parse_host(name)
            address = ip_address(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
            if not isinstance(known, str) or is_public(address):
                continue
            with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as probe:
                probe.bind((str(address), 0))
            yield known, str(address)


_LOOKUPS: Final = frozenset(("socket.getaddrinfo", "socket.gethostbyname"))

_listeners: set[LookupLog] = set()


class LookupLog:
    """Names with `mark` in them that any part of the process looks up while this is entered, from audit events.

    A lookup reveals the name, and any text in it, to every server on the way to the name's owner.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._names: dict[str, None] = {}

    def __enter__(self) -> Self:
        _have_reported()  # an audit hook can be added once, and not removed
        _listeners.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        _listeners.discard(self)

    def note(self, name: object) -> None:
        """Record a name that is looked up."""
        text = name.decode("latin-1") if isinstance(name, bytes) else str(name)
        if self._mark in text:
            self._names[text] = None

    def made(self) -> tuple[str, ...]:
        """Return the lookups, and forget them."""
        names, self._names = self._names, {}
        return tuple(f"the system was asked for {name}" for name in names)


@functools.cache
def _have_reported() -> None:
    sys.addaudithook(_report)


def _report(event: str, arguments: tuple[object, ...]) -> None:
    if event in _LOOKUPS:
        for listener in tuple(_listeners):
            listener.note(arguments[0])
