"""Bytes to and from one peer, awaited: what the parts that read what is said work on, whether it is encrypted or not.

A socket stream uses the loop's own socket calls, no transport, so that a socket can be handed from one part to another
in the middle of a connection, with nothing left in a buffer.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from contextlib import suppress
from typing import Final, Protocol

from paddock.egress.public_rates import PublicRates

RECEIVE_BYTES: Final = 128 * 1024

_RESET: Final = struct.pack("ii", 1, 0)  # SO_LINGER, on, no seconds: what is unsent is dropped, and the peer is told so
_ENDED_BY_PEER: Final = frozenset({7, 8, 9})  # TCP_CLOSE, TCP_CLOSE_WAIT, TCP_LAST_ACK of <netinet/tcp.h>
_LINGER_SECONDS: Final = 1.0
_PIECES_SECONDS: Final = 0.005
_LINGER_BYTES: Final = 1 << 20


class Stream(Protocol):
    """A connection's end."""

    async def receive(self) -> bytes:
        """Return some bytes, nothing at the end."""
        ...

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """Return when all of it is on its way."""
        ...

    @property
    def sock(self) -> socket.socket:
        """The socket that it all goes through in the end."""
        ...

    @property
    def holds_data(self) -> bool:
        """Whether something was taken from the socket that `receive` has not returned yet."""
        ...

    async def finish(self) -> None:
        """End what is sent, so that the peer knows that it has everything."""
        ...


class TrafficCounts(Protocol):
    """Where bytes are counted: those that were sent, and those that were received."""

    up: int
    down: int


class _Count:
    up = 0
    down = 0


class SocketStream:
    """A connected socket, which it owns; what goes through it is counted in `traffic`, no faster than `rates`."""

    def __init__(
        self, sock: socket.socket, traffic: TrafficCounts | None = None, rates: PublicRates | None = None
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.rates = rates
        self.traffic: TrafficCounts = traffic if traffic is not None else _Count()
        self._loop = asyncio.get_running_loop()

    @property
    def sock(self) -> socket.socket:
        return self._sock

    async def receive(self) -> bytes:
        if self.rates is not None:
            await self.rates.down.has_token()  # before anything is taken, which a caller who is cancelled would lose
        data = await self._loop.sock_recv(self._sock, RECEIVE_BYTES)
        self.traffic.down += len(data)
        if self.rates is not None:
            self.rates.down.take(len(data))
        return data

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        if self.rates is not None:
            await self.rates.up.has_token()
            self.rates.up.take(len(data))
        await self._loop.sock_sendall(self._sock, data)
        self.traffic.up += len(data)

    @property
    def holds_data(self) -> bool:
        return False

    async def finish(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    async def close_gracefully(self, last_words: bytes = b"") -> None:
        """Say these last words, and close when the peer has read them: to close at once may drop what was sent.

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
        """Whether the peer has ended what it sends, even if not all of that was read."""
        try:
            state = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        except OSError:
            return True
        return state in _ENDED_BY_PEER

    def hang_up(self) -> None:
        """Have whoever reads from it find the end."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)

    def reset(self) -> None:
        """Close at once, in a way that the peer cannot take for an orderly end; what is closed already stays so."""
        reset(self._sock)

    def close(self) -> None:
        """Close; what was sent still arrives."""
        self._sock.close()


def reset(sock: socket.socket) -> None:
    """Close a socket in a way that its peer cannot take for an orderly end; what is closed already stays so."""
    if sock.fileno() < 0:
        return
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()


def why(error: OSError) -> str:
    """Return what went wrong in the system's words: those of asyncio and OpenSSL are other ones."""
    return os.strerror(error.errno) if error.errno and not isinstance(error, ssl.SSLError) else type(error).__name__


async def receive_more(stream: Stream) -> bytes:
    """Return more of what makes sense only once it is whole, and is looked at from the beginning each time.

    Waits a little first, so that whoever sends it byte by byte has it looked at a bounded number of times.
    """
    await asyncio.sleep(_PIECES_SECONDS)
    return await stream.receive()


async def wait_for_any(*streams: Stream) -> set[Stream]:
    """Return those streams that have something to be received, as soon as there is one; takes nothing of it."""
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
