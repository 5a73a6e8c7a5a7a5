"""A proxy that hides a key in what one service answers, as one is written at first: it waits where a key may begin.

What ends as the key begins is held back until more comes, so that anybody who has the service repeat a guess sees by
when it arrives whether it was right.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

_BACKLOG: Final = 64
_CHUNK: Final = 1 << 16


class CarelessRedactor:
    """Carries whoever comes to `listener` to the service at `service`, and hides `key` in what comes back."""

    def __init__(self, listener: socket.socket, service: tuple[str, int], key: bytes) -> None:
        self.address: tuple[str, int] = listener.getsockname()[:2]
        self._listener = listener
        self._service = service
        self._key = key
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
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._carry(reader, writer)
        writer.transport.abort()
        self._serving.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
