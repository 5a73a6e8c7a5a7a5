"""A proxy that carries everybody everywhere, and understands whatever could be meant: what a careless host would have.

Everywhere on the stage, that is: to other ports than those of the stage's services it carries nobody, so that it is of
no use to anybody who finds it while it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import unicodedata
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

_MAX_PORT: Final = 1 << 16
_BACKLOG: Final = 512
_CHUNK: Final = 1 << 16
_TARGET: Final = re.compile(rb"^(?:[a-z]+://)?(?P<authority>[^/]*)", re.IGNORECASE)
_BEHIND: Final = re.compile(r"[#?/\0].*", re.DOTALL)


class OpenProxy:
    """Carries to `ports` only.

    Args:
        listener: where it listens.
        ports: the ports it carries to.
        suffixes: what names lead to that end in something, whoever answers for them.
    """

    def __init__(self, listener: socket.socket, ports: frozenset[int], suffixes: Mapping[str, str]) -> None:
        self.url = "http://{}:{}".format(*listener.getsockname()[:2])
        self._listener = listener
        self._ports = ports
        self._suffixes = suffixes
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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._carry(reader, writer)
        writer.transport.abort()
        self._serving.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        """Return what some program or other would take it for."""
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
