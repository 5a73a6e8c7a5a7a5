"""Carry bytes between two sockets, both ways at once, as fast as a loop in Python can.

The relay works on the sockets themselves: one large read and one write for each wake-up, through a buffer that all
relays share, since each relay passes on at once what it read. Only bytes that the other side does not take yet are
copied, and nothing more is read meanwhile. A direction without competitors has longer turns; competing ones have
shorter turns, so that together they leave the loop to others. `os.splice` through pipes was measured, and is no faster.

Where a budget of bytes is spent, the relay waits: it reads nothing more from the sender meanwhile.

The end of one side's bytes is passed on by itself: the other direction goes on until it ends too. An error of either
side ends both.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import ClassVar, Final

from paddock.egress.connection_record import ConnectionRecord
from paddock.egress.limits import PublicRates
from paddock.egress.stream import hang_up
from paddock.token_bucket import TokenBucket

_LONG_TURN_BYTES: Final = 1 << 20  # some 0.4 ms
_SHORT_TURN_BYTES: Final = 1 << 18  # some 0.1 ms; 64 connections may each have one before the loop comes round again

_buffer: Final = memoryview(bytearray(_LONG_TURN_BYTES))


class Relay:
    """Two connected, non-blocking sockets, which stay their owner's. The bytes carried are counted in `record`."""

    def __init__(
        self,
        client: socket.socket,
        upstream: socket.socket,
        record: ConnectionRecord,
        rates: PublicRates | None = None,
    ) -> None:
        self._ended = asyncio.get_running_loop().create_future()
        self._client = client
        self._is_awaited = False
        up, down = (rates.up, rates.down) if rates is not None else (None, None)
        self._up = _Direction(client, upstream, up, record.count_up, self._direction_ended)
        self._down = _Direction(upstream, client, down, record.count_down, self._direction_ended)

    def start_down(self) -> None:
        """Begin to pass on the destination's bytes, while the client's are still read elsewhere."""
        self._down.start()

    async def run(self, first: bytes = b"") -> None:
        """Carry both ways, first of all the client's bytes that were read elsewhere (`first`), until both have ended.

        Raises:
            OSError: the connection with either of them broke.
        """
        self._is_awaited = True
        try:
            self._up.start(first)
            self._down.start()
            await self._ended
        finally:
            self.stop()

    def stop(self) -> None:
        """Leave the sockets alone from now on."""
        self._up.stop()
        self._down.stop()

    def _direction_ended(self, error: OSError | None) -> None:
        if error is not None:
            self.stop()
        if not self._ended.done():
            if error is not None:
                self._ended.set_exception(error)
            elif self._up.has_ended and self._down.has_ended:
                self._ended.set_result(None)
        if error is not None and not self._is_awaited:
            self._ended.exception()  # retrieved, should `run` not be called
            hang_up(self._client)


class _Direction:
    """The bytes from `source` to `sink`."""

    _latest: ClassVar[_Direction | None] = None  # of all relays, the one that was served last

    def __init__(
        self,
        source: socket.socket,
        sink: socket.socket,
        budget: TokenBucket | None,
        count: Callable[[int], None],
        on_end: Callable[[OSError | None], None],
    ) -> None:
        self.has_ended = False
        self._source = source
        self._sink = sink
        self._budget = budget
        self._pause: asyncio.TimerHandle | None = None
        self._count = count
        self._on_end = on_end
        self._pending = memoryview(b"")
        self._is_running = False
        self._loop = asyncio.get_running_loop()

    def start(self, first: bytes = b"") -> None:
        if self._is_running or self.has_ended:
            return
        self._is_running = True
        self._loop.add_reader(self._source.fileno(), self._read)
        if first:
            self._forward(memoryview(first))

    def stop(self) -> None:
        if self._is_running:
            self._is_running = False
            self._loop.remove_reader(self._source.fileno())
            self._loop.remove_writer(self._sink.fileno())
            if self._pause is not None:
                self._pause.cancel()
                self._pause = None
            if _Direction._latest is self:
                _Direction._latest = None

    def _read(self) -> None:
        limit = _LONG_TURN_BYTES if _Direction._latest is self else _SHORT_TURN_BYTES
        _Direction._latest = self
        try:
            size = self._source.recv_into(_buffer, limit)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(error)
            return
        if size:
            self._forward(_buffer[:size])
        else:
            self._end(None)

    def _forward(self, data: memoryview) -> None:
        sent = self._send(data)
        if sent is None:
            return
        if sent < len(data):
            self._pending = memoryview(bytes(data[sent:]))
            self._loop.remove_reader(self._source.fileno())
            self._loop.add_writer(self._sink.fileno(), self._write)
        elif self._budget is not None and self._budget.wait(self._loop.time()):
            self._loop.remove_reader(self._source.fileno())
            self._read_on()

    def _read_on(self) -> None:
        """Read again, now or as soon as the budget has something left."""
        self._pause = None
        seconds = self._budget.wait(self._loop.time()) if self._budget is not None else 0.0
        if seconds:
            self._pause = self._loop.call_later(seconds, self._read_on)
        else:
            self._loop.add_reader(self._source.fileno(), self._read)

    def _write(self) -> None:
        sent = self._send(self._pending)
        if sent is None:
            return
        self._pending = self._pending[sent:]
        if not self._pending:
            self._loop.remove_writer(self._sink.fileno())
            self._read_on()

    def _send(self, data: memoryview) -> int | None:
        try:
            sent = self._sink.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._end(error)
            return None
        self._count(sent)
        if self._budget is not None:
            self._budget.take(sent)
        return sent

    def _end(self, error: OSError | None) -> None:
        self.stop()
        self.has_ended = True
        if error is None:
            try:
                self._sink.shutdown(socket.SHUT_WR)
            except OSError as caught:  # it is gone; its last bytes have been read, or are lost
                error = caught
        self._on_end(error)
