"""Awaitable streams of bytes to and from one peer, plain or encrypted, for the code that reads a protocol.

A socket stream uses the loop's own socket calls, no transport, so that a socket can be handed from one part to another
in the middle of a connection, with nothing left in a buffer. A TLS stream reports whether it holds data, and flushes
the alert of a failure; anyio's does neither (egress/decisions.md, 0003).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol, TypeVar

from paddock.egress.errors import IdleError
from paddock.egress.limits import PublicRates

_T = TypeVar("_T")

RECEIVE_BYTES: Final = 128 * 1024

_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER, on, no seconds: unsent bytes are dropped, and the peer knows
_ENDED_BY_PEER: Final = frozenset({7, 8, 9})  # TCP_CLOSE, TCP_CLOSE_WAIT, TCP_LAST_ACK of <netinet/tcp.h>
_LINGER_SECONDS: Final = 1.0
_PIECES_SECONDS: Final = 0.005
_LINGER_BYTES: Final = 1 << 20
_WRITE_BYTES: Final = 64 * 1024  # encrypted at a time, so that memory is bounded and others get their turn
_LOOKS: Final = 8  # within the time that nothing may happen for; an end is late by one of them at most


class Stream(Protocol):
    """A connection's end."""

    async def receive(self) -> bytes:
        """Return some bytes, nothing at the end."""
        ...

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it, and return when it is on its way."""
        ...

    @property
    def sock(self) -> socket.socket:
        """The socket below all streams."""
        ...

    @property
    def holds_data(self) -> bool:
        """Whether bytes were taken from the socket that `receive` has not returned yet."""
        ...

    async def finish(self) -> None:
        """End the sent data, so that the peer knows that it has everything."""
        ...


class TrafficCounts:
    """How many bytes were sent, and how many received."""

    def __init__(self) -> None:
        self.up = 0
        self.down = 0

    def count_up(self, size: int) -> None:
        self.up += size

    def count_down(self, size: int) -> None:
        self.down += size


class SocketStream:
    """A connected socket, which it owns; its bytes are counted in `traffic`, and limited by `rates`."""

    def __init__(
        self, sock: socket.socket, traffic: TrafficCounts | None = None, rates: PublicRates | None = None
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.rates = rates
        self.traffic = traffic if traffic is not None else TrafficCounts()
        self._loop = asyncio.get_running_loop()

    @property
    def sock(self) -> socket.socket:
        return self._sock

    async def receive(self) -> bytes:
        if self.rates is not None:
            await self.rates.down.has_token()  # before anything is taken, which a cancelled caller would lose
        data = await self._loop.sock_recv(self._sock, RECEIVE_BYTES)
        self.traffic.count_down(len(data))
        if self.rates is not None:
            self.rates.down.take(len(data))
        return data

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        if self.rates is not None:
            await self.rates.up.has_token()
            self.rates.up.take(len(data))
        await self._loop.sock_sendall(self._sock, data)
        self.traffic.count_up(len(data))

    @property
    def holds_data(self) -> bool:
        return False

    async def finish(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    async def close_gracefully(self, last_words: bytes = b"") -> None:
        """Send these last bytes, and close when the peer has read them: to close at once may drop sent bytes.

        The peer has a second for that, and need not use it.
        """
        left = _LINGER_BYTES
        with suppress(OSError):
            async with asyncio.timeout(_LINGER_SECONDS):
                if last_words:
                    await self.send(last_words)
                await self.finish()
                while left > 0 and (data := await self.receive()):
                    left -= len(data)
        self.close()

    @property
    def is_ended_by_peer(self) -> bool:
        """Whether the peer has ended its sending, even if not all of its bytes were read."""
        try:
            state = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        except OSError:
            return True
        return state in _ENDED_BY_PEER

    def reset(self) -> None:
        """Close at once, in a way that the peer cannot take for an orderly end; a closed stream stays so."""
        reset(self._sock)

    def close(self) -> None:
        """Close; sent bytes still arrive."""
        self._sock.close()


class TlsStream:
    """The plain side of an encrypted stream on top of another, at either end, begun in the middle of a connection.

    The encryption itself is OpenSSL's, between two buffers in memory, so that nothing but the stream below touches the
    socket. Errors of OpenSSL are `ssl.SSLError`, which is an `OSError`.
    """

    def __init__(
        self,
        below: Stream,
        tls: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
    ) -> None:
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
            # Many servers end without an alert; HTTP gives the length of a message.
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
        """Return the result of an OpenSSL operation, which may have to receive something first."""
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
                    await self._flush()  # the alert that names the error
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


def reset(sock: socket.socket) -> None:
    """Close a socket in a way that its peer cannot take for an orderly end; a closed one stays so."""
    if sock.fileno() < 0:
        return
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()


def hang_up(sock: socket.socket) -> None:
    """Let a reader of a socket see its end."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RD)


def why(error: OSError) -> str:
    """Return the reason of an error in the system's words, which those of asyncio and OpenSSL are not."""
    return os.strerror(error.errno) if error.errno and not isinstance(error, ssl.SSLError) else type(error).__name__


async def receive_more(stream: Stream) -> bytes:
    """Return more bytes of a message that is parsed from its beginning each time until it is whole.

    It waits a little first, so that a message sent byte by byte is parsed a bounded number of times.
    """
    await asyncio.sleep(_PIECES_SECONDS)
    return await stream.receive()


async def wait_for_any(*streams: Stream) -> set[Stream]:
    """Return those streams that can receive something, as soon as there is one; receives nothing."""
    ready = {stream for stream in streams if stream.holds_data}
    if ready:
        return ready
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake(stream: Stream) -> None:
        ready.add(stream)
        if not woken.done():
            woken.set_result(None)

    descriptors = [stream.sock.fileno() for stream in streams]
    for descriptor, stream in zip(descriptors, streams, strict=True):
        loop.add_reader(descriptor, wake, stream)
    try:
        await woken
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
    return ready


@asynccontextmanager
async def idle_timeout(traffic: TrafficCounts, seconds: float) -> AsyncIterator[None]:
    """Cancel the block once nothing was carried for this many seconds, by looking at the counts at intervals.

    Raises:
        IdleError: no byte was carried.
    """
    loop = asyncio.get_running_loop()
    seen = traffic.up + traffic.down
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal seen, timer
        carried = traffic.up + traffic.down
        if carried != seen and not timeout.expired():
            seen = carried
            timeout.reschedule(loop.time() + seconds)
        timer = loop.call_later(seconds / _LOOKS, look)

    timer = loop.call_later(seconds / _LOOKS, look)
    try:
        async with asyncio.timeout(seconds) as timeout:
            yield
    except TimeoutError:
        if timeout.expired():
            raise IdleError from None
        raise
    finally:
        timer.cancel()
