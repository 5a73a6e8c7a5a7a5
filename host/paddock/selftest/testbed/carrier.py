"""Serve connections for a proxy of the self-test, each in a task of its own that ends with the proxy.

A connection ends when the proxy's `carry` returns, when either end breaks it off, or when the proxy is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from abc import ABC, abstractmethod
from typing import Final

_BACKLOG: Final = 512


class ProxyServer(ABC):
    """A proxy that listens where `listener` does."""

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
            OSError: An end broke it off; or an IncompleteReadError.
            ValueError: It asks for nothing that can be understood.
        """

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self.carry(reader, writer)
        writer.transport.abort()
        self._serving.discard(task)
