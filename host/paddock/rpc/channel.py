"""Drive the host's end of one worker's connection.

A channel turns bytes into events for its receiver and calls into bytes, with one coarse timer for all of its deadlines.
Each call given to it ends exactly once: with the worker's answer, or with None when the connection is gone. A worker
that breaks the protocol is reported once; its further frames are ignored.

The host reads a worker's frames in order, for a short time at once, and pauses reading meanwhile, so that other work
gets its turn. Low-priority updates go along with the next frame or are sent a short time later, to avoid waking the
worker. Small frames that a few frames of one worker cause are written together, so that each other worker wakes once.

The channel knows nothing of processes, modules or the meaning of handles.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

from paddock.rpc.backlog import Make, SendBacklog
from paddock.rpc.open_calls import FOREVER, OpenCall, OpenCalls
from paddock.time_limit import Looks
from paddock_sdk.protocol import Connection, Frame, HandleEntry, Kind, LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.frames import Buffer, FrameParts, discarded

_STRETCH: Final = 0.005  # seconds for which one worker's frames are handled until everything else has its turn
_SOCKET_BUFFER: Final = 4 * 1024 * 1024  # bytes; a large message then needs few wake-ups of either loop
_FULL: Final = 256 * 1024  # bytes that the kernel has not taken yet; later frames wait where they can be replaced
_MAX_UNSENT: Final = 64 * 1024 * 1024  # bytes; four of the largest messages, and a bound on the cost of one worker
_LAST_LOOKS: Final = 10  # for what a process that has ended sent; only another one that has its socket runs them out
_LAST_LOOK_SECONDS: Final = 0.1
_JOINED_BYTES: Final = 4096  # of a frame that waits for others; copying a larger one costs more than a write
_JOINED_AFTER: Final = 8  # frames acted on between two writes, so that workers start while the host still reads
_LOOKS: Final = 12  # in the time after which a worker that reads nothing is reported
_LEAST_OF_A_WRITE: Final = 512  # bytes that the kernel takes for one, besides what is in it

_HELLO, _REQUEST, _ITEM = int(Kind.HELLO), int(Kind.REQUEST), int(Kind.ITEM)
_RESPONSE, _FAILURE = int(Kind.RESPONSE), int(Kind.FAILURE)


class WriteBatch:
    """The channels of a session with small frames that wait to be written together, while a burst of frames is read."""

    __slots__ = ("_waiting", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self._waiting: list[Channel] = []

    def begin(self) -> None:
        """Let small frames wait from now on."""
        self.is_on = True

    def end(self) -> None:
        """Write the frames that wait, and make none wait any more."""
        self.is_on = False
        self.send()

    def add(self, channel: Channel) -> None:
        """Note a channel with frames that wait."""
        self._waiting.append(channel)

    def send(self) -> None:
        """Write the frames that wait."""
        waiting, self._waiting = self._waiting, []
        for channel in waiting:
            channel.send_joined()


class ReadingWatch:
    """Calls `on_idle` when nothing of `transport` was read for `seconds`, unless `is_excused` was true meanwhile.

    A timer looks every few seconds, and stops while everything was read. The kernel counts unread data as the memory it
    takes. So a worker counts as reading once that memory grew by less than the least that the data written meanwhile
    takes.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        seconds: float,
        is_excused: Callable[[], bool],
        on_idle: Callable[[], None],
    ) -> None:
        self.is_on = False
        self._transport = transport
        self._interval = seconds / _LOOKS
        self._is_excused = is_excused
        self._on_idle = on_idle
        self._socket = transport.get_extra_info("socket")
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._written = 0
        self._seen = (0, 0)
        self._idle_looks = 0

    def note(self, size: int) -> None:
        """Take note that so many bytes were written."""
        self._written += size + _LEAST_OF_A_WRITE
        if not self.is_on:
            self.is_on = True
            self._idle_looks = 0
            self._look_later()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(self._interval, self._look)

    def _look(self) -> None:
        buffered = self._transport.get_write_buffer_size()
        held = self._held()
        if not held and not buffered:
            self.is_on = False
            return
        passed = self._written - buffered
        has_read = held - self._seen[0] < passed - self._seen[1]
        self._seen = (held, passed)
        self._idle_looks = 0 if has_read or self._is_excused() else self._idle_looks + 1
        if self._idle_looks >= _LOOKS:
            self.is_on = False
            self._on_idle()
        else:
            self._look_later()

    def _held(self) -> int:
        """Return the memory that the kernel holds for data that the worker has not read."""
        try:
            answer = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:  # a kernel that does not report it; then only the data it has not taken counts
            return 0
        return int(struct.unpack("i", answer)[0])


class ChannelDelegate(Protocol):
    """The receiver of a channel's events."""

    def on_hello(self, hello: Frame) -> None: ...

    def on_request(self, request: Frame) -> None: ...

    def on_event(self, event: Frame) -> None: ...

    def on_violation(self, error: RemoteProtocolError) -> None: ...

    def on_room(self) -> None: ...

    def on_lost(self) -> None: ...


class Channel(asyncio.BufferedProtocol):
    """The host's end of one worker's socket."""

    def __init__(
        self,
        connection: Connection,
        receiver: ChannelDelegate,
        unread_seconds: float,
        batch: WriteBatch,
    ) -> None:
        self.connection = connection
        self._batch = batch
        self._joined: list[Buffer] = []  # small frames that wait for the batch
        self.is_open = False  # whether a frame can still reach the worker
        self.is_held = False  # whether the worker's frames wait, because it sent too many
        self.calls = OpenCalls(connection)
        self.wants_room = False  # whether the receiver waits for calls to end
        self.backlog: SendBacklog | None = None  # what waits, while the worker reads more slowly than others write
        self._is_full = False  # whether the transport takes nothing until the worker has read more
        self._unread_seconds = unread_seconds
        self._reading: ReadingWatch | None = None
        self._due: dict[Hashable, bytes] = {}  # frames that go along with the next one
        self._is_due = False  # whether the next tick sends them alone
        self._due_bytes = 0
        self._receiver = receiver
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._looks = Looks(self._look)  # at the deadlines, and at due frames
        self._closing: asyncio.TimerHandle | None = None
        self._unheard: Iterator[Frame] = iter(())  # frames that wait for the loop's next turn, while reading is paused
        self._is_lost = False
        self._latest_lost: OpenCall | None = None

    async def open(self, sock: socket.socket) -> None:
        """Take over `sock`, the host's end of a worker's socket pair; it is closed also when that fails."""
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
            await self._loop.create_connection(lambda: self, sock=sock)
        except BaseException:
            sock.close()
            raise

    @property
    def latest_call(self) -> OpenCall | None:
        """The latest of the calls that are open, or were when the connection was lost."""
        return self.calls.latest() or self._latest_lost

    def await_room(self, wants_room: bool) -> None:
        """Turn on or off reports to the receiver when calls have ended."""
        self.wants_room = wants_room

    @property
    def unsent_bytes(self) -> int:
        """How much the worker has yet to read, without entries of which only the last value counts."""
        buffered = self._transport.get_write_buffer_size() if self._transport is not None else 0
        waiting = 0 if self.backlog is None else self.backlog.frame_bytes
        return buffered + waiting + sum(map(len, self._joined))

    # -- sending ---------------------------------------------------------------------------

    def request(
        self,
        call: OpenCall,
        target: int,
        method: int,
        body: Buffer,
        handles: Sequence[HandleEntry] = (),
        flags: int = 0,
        parent: int = 0,
    ) -> None:
        """Start `call`, in the service of the worker's own request `parent`; it will be ended exactly once.

        Raises:
            LocalProtocolError: the message is too large, or the connection is not open.
        """
        id, frame = self.connection.send_request(target, method, body, handles, flags=flags, parent=parent)
        self.calls.add(id, call)
        self.write(frame)
        if call.has_deadline:
            self._looks.begin()

    def cancel(self, call: OpenCall) -> None:
        """Give `call` up: send the worker a cancellation and do not end the call."""
        if not self.calls.is_running(call):
            return  # ended, or another channel's: ids are each channel's own
        self.calls.take(call.id)
        call.on_over()
        if self.is_open:
            frame = self.connection.send_cancel(call.id)
            if frame is not None:
                self.calls.keep_cancelled(call, self._loop.time())
                self.write(frame)

    def respond(self, id: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> None:
        """End the worker's request `id` with an answer, if it still waits."""
        if self.is_open and self.connection.is_serving(id):
            self.write(self.connection.send_response(id, body, handles))

    def fail(self, id: int, body: Buffer) -> None:
        """End the worker's request `id` with an encoded exception, if it still waits."""
        if self.is_open and self.connection.is_serving(id):
            self.write(self.connection.send_failure(id, body))

    def mirror(
        self,
        section: int,
        body: Buffer,
        handles: Sequence[HandleEntry] = (),
        *,
        target: int = 0,
    ) -> None:
        """Send the worker a change of shared state, before any later frame."""
        if self.is_open:
            self.write(self.connection.send_mirror(section, body, handles, target=target))

    def mirror_along(
        self,
        key: Hashable,
        section: int,
        body: Buffer,
        handles: Sequence[HandleEntry] = (),
        *,
        target: int = 0,
        waits: bool = False,
    ) -> None:
        """Send a change along with the next frame, or alone at the next tick; of each `key` only the last one.

        A change that `waits` is not sent alone before `send_due`, unless too much waits with it. One with handles needs
        a key of its own: the worker has to get each handle that is counted as handed out.
        """
        if self.is_open:
            frame = self.connection.send_mirror(section, body, handles, target=target)
            self._due_bytes -= len(self._due.pop(key, b""))  # the later of two comes last
            self._due[key] = frame if isinstance(frame, bytes) else b"".join(frame)
            self._due_bytes += len(self._due[key])
            if self._due_bytes > _FULL:
                self.send_due()
                return
            self._is_due = self._is_due or not waits
            if self._is_due:
                self._looks.begin()

    def send_due(self) -> None:
        """Send the changes that wait for the next frame."""
        if self._due and self.is_open:
            self.write(b"".join(self._take_due()))

    def keep(self, key: tuple[Hashable, ...], make: Make, *, is_new: bool) -> None:
        """Send a worker that is behind the frame that `make` returns, when there is room, in place of the key's earlier
        one.
        """
        if self.is_open:
            if self._due:  # it may describe an object that the frame of this key refers to
                self.write(b"".join(self._take_due()))
            assert self.backlog is not None  # it is behind
            self.backlog.keep(key, make, is_new=is_new)

    def release(self, id: int, times: int) -> None:
        """Send the release of the worker's object `id`; with 0 times, confirm a release by the worker."""
        if self.is_open:
            self.write(self.connection.send_release(id, times))

    def goodbye(self) -> None:
        """Ask the worker to end."""
        if self.is_open and not self.connection.said_goodbye:
            self.write(self.connection.send_goodbye())

    def write(self, frame: bytes | FrameParts) -> None:
        """Hand one frame to the transport, after the frames that are due.

        It is atomic, as the loop runs one callback at a time.
        """
        transport = self._transport
        if transport is None:
            raise LocalProtocolError("the connection is gone")
        pieces: Sequence[Buffer] = (frame,) if isinstance(frame, bytes) else frame
        if self._due:
            pieces = (b"".join((*self._take_due(), pieces[0])), *pieces[1:])
        if self._batch.is_on and len(pieces) == 1 and len(pieces[0]) <= _JOINED_BYTES and self.backlog is None:
            if not self._joined:
                self._batch.add(self)
            self._joined.append(pieces[0])
            return
        if self._joined:
            self.send_joined()
        if self.backlog is not None:
            self.backlog.add(pieces)
            if self.backlog.frame_bytes > _MAX_UNSENT:
                self._on_unread()
            return
        for piece in pieces:
            self._reading.note(len(piece))  # type: ignore[union-attr]
            transport.write(piece)

    def send_joined(self) -> None:
        """Write the small frames that wait, in one piece."""
        joined, self._joined = self._joined, []
        if joined and self._transport is not None:
            together = b"".join(joined)
            self._reading.note(len(together))  # type: ignore[union-attr]
            self._transport.write(together)

    def _on_unread(self) -> None:
        self._receiver.on_violation(RemoteProtocolError("it does not read what it is sent"))
        self.close()

    def pause_writing(self) -> None:
        self._is_full = True
        if self.backlog is None:
            self.backlog = SendBacklog()

    def resume_writing(self) -> None:
        self._is_full = False
        while self.backlog and not self._is_full and self._transport is not None:
            for piece in self.backlog.take():
                self._reading.note(len(piece))  # type: ignore[union-attr]
                self._transport.write(piece)
        if not self._is_full:
            self.backlog = None
        if self.wants_room:
            self._receiver.on_room()

    def _take_due(self) -> Iterable[bytes]:
        due, self._due, self._due_bytes = self._due, {}, 0
        self._is_due = False
        return due.values()

    def close(self) -> None:
        """Close the socket, and ignore what arrived; calls still open end with None."""
        self.is_open = False
        if self._transport is not None:
            self.send_joined()
            self._transport.abort()

    def close_soon(self, looks: int = _LAST_LOOKS) -> None:
        """Close the socket a second after the worker has ended, even if another process keeps the other end open."""
        if looks and self.is_open:
            # Not all at once: an application that blocks the loop uses up one look, and the others are left to read.
            self._closing = self._loop.call_later(_LAST_LOOK_SECONDS, self.close_soon, looks - 1)
        else:
            self.close()

    # -- receiving -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # the type that a stream socket always gets
        transport.set_write_buffer_limits(_FULL)
        self._reading = ReadingWatch(
            transport,
            self._unread_seconds,
            lambda: self.calls.oldest() is not None,
            self._on_unread,
        )
        self._transport = transport
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.connection.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            events = self.connection.buffer_updated(nbytes)
        except Exception as exc:
            self.fail_worker(exc)
            return
        unheard = iter(events)
        if not self._hear(unheard, len(events) > 1) and self._transport is not None:
            self._unheard = unheard
            self._transport.pause_reading()
            if not self.is_held:
                self._loop.call_soon(self._hear_on)
        if self.wants_room:
            self._receiver.on_room()

    def hold(self, seconds: float) -> None:
        """Pause reading from a worker that sends too many notifications; its further frames wait in its socket."""
        if not self.is_held:
            self.is_held = True
            self._loop.call_later(seconds, self._let_go_on)

    def _let_go_on(self) -> None:
        self.is_held = False
        self._hear_on()

    def _hear_on(self) -> None:
        transport = self._transport
        if transport is None or not self.is_open:
            return
        if self._hear(self._unheard, are_many=True):
            transport.resume_reading()
        elif not self.is_held:
            self._loop.call_soon(self._hear_on)
        if self.wants_room:
            self._receiver.on_room()

    def _hear(self, events: Iterator[Frame], are_many: bool) -> bool:
        """Handle what arrived, for one time slice at most; return whether all of it was handled."""
        if are_many:
            self._batch.begin()
            try:
                return self._act_on(events, self._loop.time() + _STRETCH)
            finally:
                self._batch.end()
        return self._act_on(events, FOREVER)

    def _act_on(self, events: Iterator[Frame], until: float) -> bool:
        are_many, acted_on = until != FOREVER, 0
        try:
            for event in events:
                kind = event.kind
                if kind == _RESPONSE or kind == _FAILURE:
                    call = self.calls.take(event.id)
                    if call is not None:
                        call.on_end(event)
                    elif event.handles:  # given up between its coming and its turn
                        self._receiver.on_event(discarded(event))
                elif kind == _REQUEST:
                    self._receiver.on_request(event)
                elif kind == _ITEM:
                    streaming = self.calls.get(event.id)
                    if streaming is not None:
                        streaming.on_item(event)
                    elif event.handles:
                        self._receiver.on_event(discarded(event))
                elif kind == _HELLO:
                    self._receiver.on_hello(event)
                else:
                    self._receiver.on_event(event)
                    if self.is_held:
                        return False
                if are_many:
                    if not self.is_open or self._loop.time() >= until:
                        return not self.is_open  # further frames of an abandoned worker are ignored
                    acted_on += 1
                    if acted_on % _JOINED_AFTER == 0:
                        self._batch.send()
        except Exception as exc:
            self.fail_worker(exc)
        return True

    def fail_worker(self, exc: Exception) -> None:
        """End a worker whose message caused an error in the host."""
        self.is_open = False
        broken = exc if isinstance(exc, RemoteProtocolError) else RemoteProtocolError(f"{type(exc).__name__}: {exc}")
        self._receiver.on_violation(broken)
        self.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self.is_open = False
        self._transport = None
        self._unheard = iter(())
        self._looks.stop()  # it would keep the whole session, as the other timers
        if self._closing is not None:
            self._closing.cancel()
        if self._reading is not None:
            self._reading.stop()
        self.backlog = None
        with suppress(RemoteProtocolError):  # inside a frame: a process that was killed stops anywhere
            self.connection.receive_eof()
        self._latest_lost = self.calls.latest()
        calls = self.calls.take_all()
        self._receiver.on_lost()
        for call in calls:
            call.on_end(None)

    def _look(self, before: float, stopped: float) -> bool:
        if self._is_due:
            self.send_due()
        for call in self.calls.overdue(before, stopped):
            call.on_overdue()
        return self._is_due or self.calls.have_deadlines
