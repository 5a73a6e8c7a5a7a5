"""A server that keeps what it was sent, byte by byte, and answers what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from host.egress.ground import LOOPBACK, Ground, Names, gate_for, redirect_ports, serving

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"


@dataclass
class Asked:
    """One request as it arrived."""

    head: bytes
    body: bytes
    connection: int  # the number of the connection that it came on

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    def headers(self, name: str) -> list[str]:
        """Return the values of all headers of that name."""
        lines = [line.decode("latin-1").partition(":") for line in self.head.split(b"\r\n")[1:] if line]
        return [value.strip() for found, _, value in lines if found.lower() == name]


Respond = Callable[[Asked, asyncio.StreamWriter], Awaitable[bool]]
"""Answers a request; returns whether the connection goes on."""


@dataclass
class Origin:
    """What came of a server's clients."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def lines(self) -> list[str]:
        return [one.line for one in self.asked]


def answer(body: bytes = b"ok", *, status: str = "200 OK", **headers: str) -> bytes:
    """Return an answer; names of headers are written with underscores."""
    given = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in given.items() if value), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


async def say_ok(asked: Asked, writer: asyncio.StreamWriter) -> bool:
    writer.write(answer(b"" if asked.head.startswith(b"HEAD") else b"ok", content_length="2"))
    return True


def says(data: bytes, *, goes_on: bool = False) -> Respond:
    """Return what answers these bytes to every request."""

    async def respond(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        writer.write(data)
        return goes_on

    return respond


@asynccontextmanager
async def origin(respond: Respond = say_ok, **tls: Any) -> AsyncIterator[Origin]:
    """Have such a server."""
    kept = Origin()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        kept.connections += 1
        number = kept.connections
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            asked = Asked(head, b"", number)
            kept.asked.append(asked)
            asked.body = await _body(asked, reader)
            goes_on = await respond(asked, writer)
            await writer.drain()
            if not goes_on:
                return

    async with serving(handle, **tls) as kept.port:
        yield kept


@asynccontextmanager
async def granted(
    *ports: int, names: Sequence[str] = ("api.test",), respond: Respond = say_ok, tls: Any = None, **given: Any
) -> AsyncIterator[tuple[Ground, Origin]]:
    """Have such a server, and a gate for a module that was granted it by these names at these ports."""
    rules = [f"{host}:{port}" for host in (*names, LOOPBACK) for port in ports]
    with pytest.MonkeyPatch.context() as patch:
        async with origin(respond, ssl=tls) as site:
            redirect_ports(patch, **{f"p{port}": site.port for port in ports})
            async with gate_for(*rules, names=Names.all_here(*names), **given) as ground:
                yield ground, site


async def _body(asked: Asked, reader: asyncio.StreamReader) -> bytes:
    if asked.headers("transfer-encoding"):
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
        return body
    return await reader.readexactly(int((asked.headers("content-length") or ["0"])[0]))
