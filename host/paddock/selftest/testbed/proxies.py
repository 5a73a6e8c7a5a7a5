"""The proxies that attackers use outside: one carries everything, one leaks the key it inserts.

Inside, the host's own proxies take their place; without these, a refusal there could be a defect of the attack.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

_BACKLOG: Final = 512
_MAX_PORT: Final = 1 << 16
_CHUNK: Final = 1 << 16
_TARGET: Final = re.compile(rb"^(?:[a-z]+://)?(?P<authority>[^/]*)", re.IGNORECASE)
_BEHIND: Final = re.compile(r"[#?/\0].*", re.DOTALL)


class ProxyServer(ABC):
    """A proxy that listens at `listener`, with a task for each connection.

    A connection ends when `carry` returns, when either end breaks it off, or when the proxy is closed.
    """

    def __init__(self, listener: socket.socket) -> None:
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._listener = listener
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin to serve."""
        self._server = await asyncio.start_server(self._serve, sock=self._listener, backlog=_BACKLOG)

    async def close(self) -> None:
        """End it, and all that it carries."""
        self._server.close()
        for task in tuple(self._serving):
            task.cancel()
        if self._serving:
            await asyncio.wait(tuple(self._serving))

    @abstractmethod
    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection.

        Raises:
            OSError: an end broke it off; or an IncompleteReadError.
            ValueError: its request cannot be understood.
        """

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self.carry(reader, writer)
        writer.transport.abort()
        self._serving.discard(task)


class OpenProxy(ProxyServer):
    """Carries every client, and accepts every possible reading of a request, as a careless host would.

    It carries only to the ports of the stage's services, so that no other program can use it meanwhile.

    Args:
        listener: where it listens.
        ports: the ports it carries to.
        suffixes: endings of names that lead to a service here, independent of their owners.
    """

    def __init__(self, listener: socket.socket, ports: frozenset[int], suffixes: Mapping[str, str]) -> None:
        super().__init__(listener)
        self.url = "http://{}:{}".format(*self.address)
        self._ports = ports
        self._suffixes = suffixes

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, *_ = head.split(b" ")
        authority = target if method == b"CONNECT" else _TARGET.match(target)["authority"]  # type: ignore[index]
        host, port = self._understood(authority)
        if port not in self._ports:
            writer.write(b"HTTP/1.1 403 Not on the stage\r\n\r\n")
            return
        there, to = await asyncio.open_connection(host, port)
        try:
            if method == b"CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                to.write(head)
            up = asyncio.create_task(_pump(reader, to))
            await _pump(there, writer)
            up.cancel()
            await asyncio.wait([up])
        finally:
            to.transport.abort()

    def _understood(self, authority: bytes) -> tuple[str, int]:
        """Return the destination that some program would read in it."""
        text = unicodedata.normalize("NFKC", unquote_to_bytes(authority).decode("utf-8", "replace"))
        text = _BEHIND.sub("", text).rpartition("@")[2].replace("\u3002", ".")
        host, _, port = text.rpartition(":")
        host = host.strip().strip("[]").rstrip(".").lower()
        for suffix, address in self._suffixes.items():
            if host.endswith(suffix):
                host = address
        return host, int(port) % _MAX_PORT


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()


class LeakyRedactor(ProxyServer):
    """Carries each request to the service at `service`, and hides `key` in the answer in a naive way.

    It holds back data that ends like the beginning of the key, until more data comes. A client that has the service
    repeat a guess sees by the delay whether the guess was right.
    """

    def __init__(self, listener: socket.socket, service: tuple[str, int], key: bytes) -> None:
        super().__init__(listener)
        self._service = service
        self._key = key

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        there, to = await asyncio.open_connection(*self._service)
        try:
            to.write(request)
            held = b""
            while data := await there.read(_CHUNK):
                held = (held + data).replace(self._key, b"*" * len(self._key))
                ready = len(held) - self._beginning_at_the_end_of(held)
                writer.write(held[:ready])
                held = held[ready:]
            writer.write(held)
            await writer.drain()
        finally:
            to.transport.abort()

    def _beginning_at_the_end_of(self, data: bytes) -> int:
        """Return how many of the last bytes equal the beginning of the key."""
        sizes = range(min(len(data), len(self._key) - 1), 0, -1)
        return next((size for size in sizes if data.endswith(self._key[:size])), 0)
