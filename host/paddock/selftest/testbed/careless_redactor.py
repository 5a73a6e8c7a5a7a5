"""A proxy that hides a key in a service's answers, with the flaw of a first attempt: it waits where a key may begin.

It holds data back that ends as the key begins, until more data comes. A client that has the service repeat a guess sees
by the delay whether the guess was right.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from paddock.selftest.testbed.carrier import ProxyServer

_CHUNK: Final = 1 << 16


class LeakyRedactor(ProxyServer):
    """Carries each request to the service at `service`, and hides `key` in the answer."""

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
        """Return how many of the last bytes are the first ones of the key."""
        sizes = range(min(len(data), len(self._key) - 1), 0, -1)
        return next((size for size in sizes if data.endswith(self._key[:size])), 0)
