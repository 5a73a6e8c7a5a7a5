"""TLS on top of another stream, at either end of it, begun in the middle of a connection if need be.

The encryption itself is OpenSSL's, between two buffers in memory, so that nothing but the stream below touches the
socket. Errors of OpenSSL are `ssl.SSLError`, which is an `OSError`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from paddock.egress.stream import RECEIVE_BYTES, Stream

_T = TypeVar("_T")

_WRITE_BYTES: Final = 64 * 1024  # encrypted at a time, so that memory is bounded and others get their turn


class TlsStream:
    """The plain side of an encrypted stream."""

    def __init__(self, below: Stream, tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._below = below
        self._tls = tls
        self._incoming = incoming
        self._outgoing = outgoing
        self._sending = asyncio.Lock()

    @classmethod
    async def serve(cls, below: Stream, context: ssl.SSLContext, received: bytes) -> TlsStream:
        """Return a stream to a client that began TLS, and whose first bytes were `received`."""
        stream = cls._of(below, context, server_hostname=None)
        stream._incoming.write(received)
        await stream._do(stream._tls.do_handshake)
        return stream

    @classmethod
    async def connect(cls, below: Stream, context: ssl.SSLContext, server_name: str) -> TlsStream:
        """Return a stream to a server that has proved to be the one of that name."""
        stream = cls._of(below, context, server_hostname=server_name)
        await stream._do(stream._tls.do_handshake)
        return stream

    @classmethod
    def _of(cls, below: Stream, context: ssl.SSLContext, *, server_hostname: str | None) -> TlsStream:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_server = server_hostname is None
        tls = context.wrap_bio(incoming, outgoing, server_side=is_server, server_hostname=server_hostname)
        return cls(below, tls, incoming, outgoing)

    async def receive(self) -> bytes:
        try:
            return await self._do(lambda: self._tls.read(RECEIVE_BYTES))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            # Many servers end without saying so; how long a message is says HTTP.
            return b""

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        while view:
            piece = view[:_WRITE_BYTES]
            written = await self._do(lambda piece=piece: self._tls.write(piece))  # type: ignore[misc]
            view = view[written:]

    @property
    def sock(self) -> socket.socket:
        return self._below.sock

    @property
    def holds_data(self) -> bool:
        return bool(self._tls.pending() or self._incoming.pending)

    async def finish(self) -> None:
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        with suppress(OSError):
            await self._flush()
        await self._below.finish()

    async def _do(self, act: Callable[[], _T]) -> _T:
        """Return what an act returns that OpenSSL may have to receive something for first."""
        while True:
            try:
                done = act()
            except ssl.SSLWantReadError:
                await self._flush()
                received = await self._below.receive()
                if received:
                    self._incoming.write(received)
                else:
                    self._incoming.write_eof()
            except ssl.SSLError:
                with suppress(OSError):
                    await self._flush()  # the alert that says what is wrong
                raise
            else:
                await self._flush()
                return done

    async def _flush(self) -> None:
        # One at a time: two that send at once would mix up their bytes.
        if self._outgoing.pending:
            async with self._sending:
                if data := self._outgoing.read():
                    await self._below.send(data)
