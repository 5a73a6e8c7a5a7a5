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

from paddock.selftest.testbed.carrier import ProxyServer

_MAX_PORT: Final = 1 << 16
_CHUNK: Final = 1 << 16
_TARGET: Final = re.compile(rb"^(?:[a-z]+://)?(?P<authority>[^/]*)", re.IGNORECASE)
_BEHIND: Final = re.compile(r"[#?/\0].*", re.DOTALL)


class OpenProxy(ProxyServer):
    """Carries to `ports` only.

    Args:
        listener: where it listens.
        ports: the ports it carries to.
        suffixes: what names lead to that end in something, whoever answers for them.
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
