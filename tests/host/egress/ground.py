"""A gate with real sockets on both sides: a worker's listeners as loopback stands in for them, and servers behind it.

A worker's network takes every address for its own; of the addresses below 127.0.0.0/8 this is true without a network of
its own, so that each place a test connects to stands for an address that a worker would connect to. Names are looked up
at the gate as a worker does it, by a datagram.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from paddock.authorization.suggestions.pasted import line_for
from paddock.egress import dialer
from paddock.egress.gate import PROXY_PORT, EgressGate
from paddock.egress.limits import EgressLimits
from paddock.egress.rules import NetRules, RefusedNetwork
from paddock.errors import Denial
from paddock.plan.net_rule import NetRule
from paddock.plan.permissions import Permissions
from paddock_sandbox.network import GATEWAY

PATIENCE = 60.0
LOOPBACK = "127.0.0.1"
SITE = "93.184.216.34"  # a public address

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Ledger:
    """What a gate recorded and denied."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.denials: list[Denial] = []
        self._changed = asyncio.Event()

    def record(self, event: str, /, **facts: object) -> None:
        assert event == "egress.connection"
        self.records.append(facts)
        self._changed.set()

    def deny(self, denial: Denial) -> None:
        self.denials.append(denial)

    async def has(self, count: int) -> list[dict[str, Any]]:
        """Return the records, once there are so many."""
        with anyio.fail_after(PATIENCE):
            while len(self.records) < count:
                self._changed.clear()
                await self._changed.wait()
        return self.records

    async def only(self) -> dict[str, Any]:
        """Return the one record there is, once there is one."""
        (record,) = await self.has(1)
        return record


class Names:
    """A resolver that answers what a test says: of several answers the next each time, the last from then on."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]] | None = None) -> None:
        self.asked: list[str] = []
        self._answers = {name: list(each) for name, each in (answers or {}).items()}

    @classmethod
    def all_here(cls, *names: str) -> Names:
        """Return one by which these names lead to this machine."""
        return cls({name: [[LOOPBACK]] for name in names})

    async def __call__(self, name: str) -> list[IPv4Address | IPv6Address]:
        self.asked.append(name)
        answers = self._answers.get(name.removesuffix("."))
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [ip_address(address) for address in (answers.pop(0) if len(answers) > 1 else answers[0])]


class World:
    """Where public addresses lead: servers of the test by address and port, and what was connected to."""

    def __init__(self) -> None:
        self.servers: dict[tuple[str, int], int] = {}
        self.connected: list[tuple[str, int]] = []
        self._connect = dialer._connect

    async def connect(self, address: Any, port: int) -> socket.socket:
        self.connected.append((str(address), port))
        here = self.servers.get((str(address), port))
        if here is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return await self._connect(dialer.ip_address(LOOPBACK), here)


class Ground:
    """A gate, what it told, and how to reach places through it."""

    def __init__(self, gate: EgressGate, ledger: Ledger, port: int, dns: int, places: dict[str, tuple[str, int]]):
        self.gate = gate
        self.ledger = ledger
        self._port = port
        self.dns = dns
        self._places = places
        self._free = (f"127.77.{high}.{low}" for high in range(256) for low in range(1, 255))

    async def address_of(self, name: str) -> str | None:
        """Return the address that a worker is told for a name, None if it does not exist."""
        return await asyncio.to_thread(look_up, name, (LOOPBACK, self.dns))

    async def place(self, host: str, port: int) -> tuple[str, int]:
        """Return where to connect for what a worker would reach by connecting to a name or an address."""
        address = host if host[-1].isdigit() else await self.address_of(host)
        assert address is not None, f"{host} does not exist"
        return self.place_at(address, port)

    def place_at(self, address: str, port: int) -> tuple[str, int]:
        """Return where to connect for what a worker would reach by connecting to an address."""
        here = next(self._free)
        self._places[here] = (address, port)
        return here, self._port

    def proxy(self) -> tuple[str, int]:
        """Return where to connect for the proxy of a worker's own network."""
        return self.place_at(GATEWAY, PROXY_PORT)

    async def connect(self, host: str, port: int) -> Line:
        """Connect as a worker would."""
        return await Line.to(await self.place(host, port))

    async def proxied(self, target: str, *headers: str, **more: Any) -> tuple[int, dict[str, str], bytes]:
        """Return what the proxy of a worker's own network answers to a request on a connection of its own."""
        return await answered(self.proxy(), asking(target, *headers, **more))

    async def heard(self, host: str, port: int, said: bytes = b"") -> bytes:
        """Connect as a worker would, and return all that comes back upon these bytes."""
        line = await self.connect(host, port)
        await line.say(said)
        return await line.rest()


class Line:
    """A client's end of a connection, as bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, where: tuple[str, int], **tls: Any) -> Line:
        with anyio.fail_after(PATIENCE):
            return cls(*await asyncio.open_connection(*where, **tls))

    async def say(self, data: bytes) -> None:
        with anyio.fail_after(PATIENCE):
            self.writer.write(data)
            await self.writer.drain()

    async def hear(self, size: int) -> bytes:
        with anyio.fail_after(PATIENCE):
            return await self.reader.readexactly(size)

    async def hear_until(self, end: bytes) -> bytes:
        with anyio.fail_after(PATIENCE):
            return await self.reader.readuntil(end)

    async def rest(self) -> bytes:
        """Return everything up to the end, `RESET` in the place of an end that is none, and close it."""
        heard = b""
        with anyio.fail_after(PATIENCE):
            try:
                while data := await self.reader.read(1 << 16):
                    heard += data
            except ConnectionResetError:
                heard += b"RESET"
        await self.close()
        return heard

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Say a request of HTTP and return its answer."""
        await self.say(request)
        return await self.answer()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body of an answer that says how long it is."""
        head = (await self.hear_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        return int(head[0].split()[1]), headers, await self.hear(int(headers.get("content-length", "0")))

    def end(self) -> None:
        """End what is said here."""
        self.writer.write_eof()

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError, ssl.SSLError), anyio.fail_after(PATIENCE):
            await self.writer.wait_closed()


def asking(target: str, *headers: str, method: str = "GET", host: str | None = None) -> bytes:
    """Return a request as a proxy is asked."""
    named = host if host is not None else urlsplit(target).netloc or target
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {named}", *headers, "", ""]).encode("latin-1")


async def answered(where: tuple[str, int], request: bytes, **tls: Any) -> tuple[int, dict[str, str], bytes]:
    """Return the answer to a request on a connection of its own."""
    line = await Line.to(where, **tls)
    answer = await line.ask(request)
    await line.close()
    return answer


@asynccontextmanager
async def gate_for(
    *rules: str,
    names: Names | None = None,
    bounds: EgressLimits | None = None,
    refused: Sequence[RefusedNetwork] = (),
    **given: Any,
) -> AsyncIterator[Ground]:
    """Have a gate for a module that was granted these, attached to one listener and to lookups."""
    ledger, places = Ledger(), dict[str, tuple[str, int]]()
    gate = EgressGate(
        "tool-x",
        NetRules([NetRule.parse(rule) for rule in rules], refused=refused),
        audit=ledger,
        on_denial=ledger.deny,
        resolve=names or Names(),
        bounds=bounds or EgressLimits(),
        destination_of=lambda accepted: places[accepted.getsockname()[0]],
        line=partial(line_for, Permissions(), "net"),
        **given,
    )
    listener = socket.create_server(("0.0.0.0", 0), backlog=128)
    dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    dns.bind((LOOPBACK, 0))
    for each in (listener, dns):
        each.setblocking(False)
    ground = Ground(gate, ledger, listener.getsockname()[1], dns.getsockname()[1], places)
    gate.attach([listener], dns)
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    try:
        yield ground
    finally:
        with anyio.fail_after(PATIENCE):
            await gate.aclose()
    assert not problems


@asynccontextmanager
async def serving(handler: Handler, **tls: Any) -> AsyncIterator[int]:
    """Have a server on 127.0.0.1, and its port; whoever it serves is cut off in the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await handler(reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, LOOPBACK, 0, **tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tuple(tasks), timeout=PATIENCE)


def redirect(monkeypatch: pytest.MonkeyPatch, way: Callable[[str, int], tuple[str, int]]) -> None:
    """Have each connection of an event loop lead where `way` says."""
    connect = asyncio.SelectorEventLoop.sock_connect

    async def redirected(loop: asyncio.SelectorEventLoop, sock: socket.socket, address: Any) -> None:
        await connect(loop, sock, way(*address[:2]) if sock.family in (socket.AF_INET, socket.AF_INET6) else address)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", redirected)


def redirect_ports(monkeypatch: pytest.MonkeyPatch, **ports: int) -> None:
    """Have the gate connect to other ports, as `p443=4711`, since not every user may open low ones."""
    redirect(monkeypatch, lambda host, port: (host, ports.get(f"p{port}", port)))


def look_up(name: str, server: tuple[str, int]) -> str | None:
    """Ask for the address of a name, as a worker's C library does."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.sendto(query, server)
        reply = sock.recv(512)
    if reply[3] & 0xF:
        assert reply[3] & 0xF == 3, reply
        return None
    return str(IPv4Address(reply[-4:]))


def brief(**changes: Any) -> EgressLimits:
    """Return bounds whose times are short."""
    return replace(
        EgressLimits(
            head_seconds=0.3, idle_seconds=0.6, waiting_seconds=0.3, connect_seconds=1.0, real_address_seconds=0.3
        ),
        **changes,
    )
