"""The order of frames: which may come when, and that each call ends exactly once.

A `Connection` is one end of one socket. Incoming bytes go in through `get_buffer` and `buffer_updated` (or
`receive_data`) and come out as events; outgoing messages go in through the `send_*` methods and come out as bytes. It
is symmetric except for the handshake. The caller's own mistakes raise `LocalProtocolError` and change nothing; the
peer's raise `RemoteProtocolError`, after which only `is_closed` and `receive_eof` are of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from paddock_sdk.protocol.decoder import FrameDecoder
from paddock_sdk.protocol.errors import LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.frames import (
    MAX_FRAME_BYTES,
    Buffer,
    Flag,
    Frame,
    FrameParts,
    HandleEntry,
    Kind,
    discarded,
    encode_frame,
)

LAST_ID: Final = 0xFFFFFFFF  # of a call, the most that four bytes hold; the next one is 1 again
_AFTER_THE_END: Final = "bytes after the end of the connection"
_MAX_CREDIT: Final = 1 << 16  # items a caller may allow ahead; beyond it a stream has no back-pressure at all


class Role(Enum):
    """Which end this is; the worker speaks first."""

    HOST = "host"
    WORKER = "worker"


class _Phase(Enum):
    GREETING = "greeting"  # no hello yet
    GREETED = "greeted"  # the worker has sent hello, the host not yet welcome
    OPEN = "open"
    CLOSED = "closed"


_OPEN, _CLOSED = _Phase.OPEN, _Phase.CLOSED


class _Call:
    """The state of an unfinished call, made or served."""

    __slots__ = ("cancelled", "credit", "is_stream")

    def __init__(self, *, is_stream: bool, cancelled: bool = False) -> None:
        self.is_stream = is_stream
        self.cancelled = cancelled
        self.credit = 0

    def cancel(self) -> None:
        """Its end is not waited for any more."""
        self.cancelled = True

    def allow(self, items: int) -> None:
        """So many items more may come."""
        self.credit += items

    def spend(self) -> None:
        """An item has come, or gone."""
        self.credit -= 1


_HELLO, _WELCOME, _REQUEST, _RESPONSE, _FAILURE, _NOTIFY = (
    int(Kind.HELLO),
    int(Kind.WELCOME),
    int(Kind.REQUEST),
    int(Kind.RESPONSE),
    int(Kind.FAILURE),
    int(Kind.NOTIFY),
)
_CANCEL, _ITEM, _CREDIT = int(Kind.CANCEL), int(Kind.ITEM), int(Kind.CREDIT)
_MIRROR, _RELEASE, _GOODBYE = int(Kind.MIRROR), int(Kind.RELEASE), int(Kind.GOODBYE)
_STREAM = int(Flag.STREAM)

# A call that is not a stream needs no state but its existence; sharing one value spares an allocation per call.
_PLAIN: Final = _Call(is_stream=False)
_PLAIN_CANCELLED: Final = _Call(is_stream=False, cancelled=True)


class Connection:
    """One end of the wire as a state machine.

    Args:
        role: which end this is.
        receive_limit: the largest frame accepted from the peer, in bytes.
        send_limit: the largest frame the peer is known to accept, in bytes.
    """

    __slots__ = (
        "_decoder",
        "_incoming",
        "_next_id",
        "_outgoing",
        "_phase",
        "_role",
        "get_buffer",
        "peer_said_goodbye",
        "said_goodbye",
        "send_limit",
    )

    def __init__(self, role: Role, *, receive_limit: int = MAX_FRAME_BYTES, send_limit: int = MAX_FRAME_BYTES) -> None:
        self._role = role
        self._decoder = FrameDecoder(receive_limit)
        self.get_buffer = self._decoder.get_buffer
        self._phase = _Phase.GREETING
        self._next_id = 1
        self._outgoing: dict[int, _Call] = {}
        self._incoming: dict[int, _Call] = {}
        self.send_limit = send_limit
        self.said_goodbye = False
        self.peer_said_goodbye = False

    @property
    def requests_sent(self) -> int:
        """How many requests this side has started."""
        return self._next_id - 1

    # -- open calls ------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._phase is _CLOSED

    @property
    def outgoing(self) -> int:
        """How many calls this side made that have not ended."""
        return len(self._outgoing)

    @property
    def incoming(self) -> int:
        """How many calls this side serves."""
        return len(self._incoming)

    def is_calling(self, id: int) -> bool:
        """Whether this side's call `id` has not ended, also if it was cancelled."""
        return id in self._outgoing

    def is_serving(self, id: int) -> bool:
        """Whether the peer's call `id` still waits for its end."""
        return id in self._incoming

    # -- receiving -------------------------------------------------------------------------

    def buffer_updated(self, count: int) -> list[Frame]:
        """Take note of `count` received bytes and return the events they complete, in order.

        Raises:
            RemoteProtocolError: the peer broke the protocol; the connection is closed.
        """
        if self._phase is _CLOSED:
            raise RemoteProtocolError(_AFTER_THE_END)
        try:
            frames = self._decoder.buffer_updated(count)
            if self._phase is not _OPEN:
                return self._accept_all(frames)
            accept = self._accept  # the phase only changes here while greetings come in
            return [event for frame in frames if (event := accept(frame)) is not None]
        except RemoteProtocolError:
            self._break_off()
            raise

    def receive_data(self, data: bytes) -> list[Frame]:
        """Do as `buffer_updated` does, with a copy of `data`."""
        if self._phase is _CLOSED:
            raise RemoteProtocolError(_AFTER_THE_END)
        try:
            return self._accept_all(self._decoder.receive_data(data))
        except RemoteProtocolError:
            self._break_off()
            raise

    def receive_eof(self) -> list[int]:
        """Close, and return the ids of the calls made here that will never be answered.

        Cancelled calls are not among them: no caller waits for those.

        Raises:
            RemoteProtocolError: the stream ended inside a frame.
        """
        was_closed = self.is_closed
        self._break_off()
        orphans = [id for id, call in self._outgoing.items() if not call.cancelled]
        self._outgoing.clear()
        if not was_closed and not self._decoder.is_empty:
            raise RemoteProtocolError("the stream ended inside a frame")
        return orphans

    def _break_off(self) -> None:
        self._phase = _CLOSED
        self._incoming.clear()

    def _accept_all(self, frames: list[Frame]) -> list[Frame]:
        events: list[Frame] = []
        for frame in frames:
            event = self._accept(frame) if self._phase is _OPEN else self._accept_greeting(frame)
            if event is not None:
                events.append(event)
        return events

    def _accept_greeting(self, frame: Frame) -> Frame:
        if frame.kind == _GOODBYE:
            return self._accept_goodbye(frame)
        if self._role is Role.HOST:
            expected, awaited, then = Kind.HELLO, _Phase.GREETING, _Phase.GREETED
        else:
            expected, awaited, then = Kind.WELCOME, _Phase.GREETED, _OPEN
        if frame.kind != expected or self._phase is not awaited or self.peer_said_goodbye:
            raise RemoteProtocolError(f"a frame of kind {Kind(frame.kind).name} before the greetings are over")
        self._phase = then
        return frame

    def _accept_goodbye(self, frame: Frame) -> Frame:
        if self.peer_said_goodbye:
            raise RemoteProtocolError("a second goodbye")
        self.peer_said_goodbye = True
        return frame

    def _accept(self, frame: Frame) -> Frame | None:
        """Check one frame against the open calls; return the event for the caller, if any."""
        kind = frame.kind
        if kind == _REQUEST:
            if not frame.id or frame.id in self._incoming:
                raise RemoteProtocolError(f"a request under id {frame.id}, which is not free")
            if self.peer_said_goodbye:
                raise RemoteProtocolError("a request after a goodbye")
            self._incoming[frame.id] = _Call(is_stream=True) if frame.flags & _STREAM else _PLAIN
            return frame
        if kind == _RESPONSE or kind == _FAILURE:
            call = self._outgoing.pop(frame.id, None)
            if call is None:
                raise RemoteProtocolError(f"an answer to call {frame.id}, which was never made or has ended")
            return _discard(frame) if call.cancelled else frame
        if kind == _MIRROR:
            if self._role is Role.HOST:
                raise RemoteProtocolError("a worker sent a mirror change; only the host may")
            return frame
        if kind == _NOTIFY:
            if self.peer_said_goodbye:
                raise RemoteProtocolError("a notification after a goodbye")
            return frame
        if kind == _RELEASE:
            return frame
        if kind == _CANCEL:
            return self._accept_cancel(frame)
        if kind == _ITEM:
            call = self._outgoing.get(frame.id)
            if call is None or not call.is_stream:
                raise RemoteProtocolError(f"an item for call {frame.id}, which has no open stream")
            if call.credit == 0:
                raise RemoteProtocolError(f"an item for call {frame.id} beyond the credit it was given")
            call.spend()
            return _discard(frame) if call.cancelled else frame
        if kind == _CREDIT:
            served = self._incoming.get(frame.id)
            if served is None:
                return None  # crossed with the stream's end
            if not served.is_stream or not 0 < frame.target <= _MAX_CREDIT - served.credit:
                raise RemoteProtocolError(f"credit of {frame.target} for call {frame.id}")
            served.allow(frame.target)
            return frame
        if kind == _GOODBYE:
            return self._accept_goodbye(frame)
        raise RemoteProtocolError(f"a frame of kind {Kind(kind).name} in an open connection")

    def _accept_cancel(self, frame: Frame) -> Frame | None:
        served = self._incoming.get(frame.id)
        if served is None:
            return None  # crossed with the end of the call: there is nothing left to cancel
        if served.cancelled:
            raise RemoteProtocolError(f"a second cancellation of call {frame.id}")
        if served.is_stream:
            served.cancel()
        else:
            self._incoming[frame.id] = _PLAIN_CANCELLED
        return frame

    # -- sending ---------------------------------------------------------------------------

    def send_hello(self, body: Buffer) -> bytes | FrameParts:
        """Greet as a worker."""
        if self._role is not Role.WORKER or self._phase is not _Phase.GREETING or self.said_goodbye:
            raise LocalProtocolError("only a worker says hello, and only once")
        frame = encode_frame(_HELLO, body=body, max_frame_bytes=self.send_limit)
        self._phase = _Phase.GREETED
        return frame

    def send_welcome(self, body: Buffer) -> bytes | FrameParts:
        """Answer a worker's hello; from here on the connection is open."""
        if self._role is not Role.HOST or self._phase is not _Phase.GREETED or self.said_goodbye:
            raise LocalProtocolError("only a host says welcome, once, to a worker that said hello")
        frame = encode_frame(_WELCOME, body=body, max_frame_bytes=self.send_limit)
        self._phase = _OPEN
        return frame

    def send_request(
        self,
        target: int,
        method: int,
        body: Buffer,
        handles: Sequence[HandleEntry] = (),
        *,
        flags: int = 0,
        parent: int = 0,
        deadline_ms: int = 0,
    ) -> tuple[int, bytes | FrameParts]:
        """Start a call; return its id and its bytes."""
        if self._phase is not _OPEN or self.said_goodbye:
            raise LocalProtocolError("a request on a connection that is not open, or after a goodbye")
        id = self._next_id
        outgoing = self._outgoing
        while id in outgoing:  # only after four thousand million calls
            id = id % LAST_ID + 1
        frame = encode_frame(
            _REQUEST,
            flags=flags,
            method=method,
            id=id,
            target=target,
            parent=parent,
            deadline_ms=deadline_ms,
            handles=handles,
            body=body,
            max_frame_bytes=self.send_limit,
        )
        self._next_id = id % LAST_ID + 1
        outgoing[id] = _Call(is_stream=True) if flags & _STREAM else _PLAIN
        return id, frame

    def send_response(self, id: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | FrameParts:
        """End call `id` well."""
        return self._end(_RESPONSE, id, body, handles)

    def send_failure(self, id: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | FrameParts:
        """End call `id` badly; the body is an encoded exception."""
        return self._end(_FAILURE, id, body, handles)

    def _end(self, kind: int, id: int, body: Buffer, handles: Sequence[HandleEntry]) -> bytes | FrameParts:
        if id not in self._incoming:
            raise LocalProtocolError(f"call {id} is not open, or has ended already")
        frame = encode_frame(kind, id=id, handles=handles, body=body, max_frame_bytes=self.send_limit)
        del self._incoming[id]
        return frame

    def send_notify(
        self, target: int, method: int, body: Buffer, handles: Sequence[HandleEntry] = ()
    ) -> bytes | FrameParts:
        """Send a message that needs no answer."""
        self._require_open("a notification")
        if self.said_goodbye:
            raise LocalProtocolError("a notification after a goodbye")
        return encode_frame(
            _NOTIFY, method=method, target=target, handles=handles, body=body, max_frame_bytes=self.send_limit
        )

    def send_mirror(
        self, section: int, body: Buffer, handles: Sequence[HandleEntry] = (), *, target: int = 0
    ) -> bytes | FrameParts:
        """Send the worker a change of shared state, or of the object `target` that it holds."""
        self._require_open("a mirror change")
        if self._role is not Role.HOST:
            raise LocalProtocolError("only the host sends mirror changes")
        return encode_frame(
            _MIRROR, method=section, target=target, handles=handles, body=body, max_frame_bytes=self.send_limit
        )

    def send_cancel(self, id: int) -> bytes | FrameParts | None:
        """Cancel call `id`: its end, when it comes, is swallowed. None if it has ended or was cancelled."""
        call = self._outgoing.get(id)
        if call is None or call.cancelled or self._phase is not _OPEN:
            return None
        if call.is_stream:
            call.cancel()
        else:
            self._outgoing[id] = _PLAIN_CANCELLED
        return encode_frame(_CANCEL, id=id)

    def send_item(self, id: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | FrameParts:
        """Send one item of the stream that answers call `id`; `credit(id)` must be positive."""
        call = self._incoming.get(id)
        if call is None or not call.is_stream:
            raise LocalProtocolError(f"call {id} is not an open stream")
        if call.credit == 0:
            raise LocalProtocolError(f"no credit left on the stream of call {id}")
        frame = encode_frame(_ITEM, id=id, handles=handles, body=body, max_frame_bytes=self.send_limit)
        call.spend()
        return frame

    def credit(self, id: int) -> int:
        """How many items may be sent on the stream of call `id` right now."""
        call = self._incoming.get(id)
        return call.credit if call is not None else 0

    def send_credit(self, id: int, items: int) -> bytes | FrameParts | None:
        """Allow `items` more items on the stream of call `id`; None if there is no such stream any more."""
        call = self._outgoing.get(id)
        if call is None or not call.is_stream or call.cancelled or self._phase is not _OPEN:
            return None
        if not 0 < items <= _MAX_CREDIT - call.credit:
            raise LocalProtocolError(f"credit of {items} on top of {call.credit}; the limit is {_MAX_CREDIT}")
        call.allow(items)
        return encode_frame(_CREDIT, id=id, target=items)

    def send_release(self, id: int, times: int) -> bytes | FrameParts:
        """Report to the owner of object `id` that this side released it, having received it `times` times.

        With 0 times it is the owner that confirms: it has noted the release, and will describe the object again.
        """
        self._require_open("a release")
        return encode_frame(_RELEASE, id=id, target=times)

    def send_goodbye(self, body: Buffer = b"") -> bytes | FrameParts:
        """Announce that nothing new will be started here."""
        if self._phase is _CLOSED or self.said_goodbye:
            raise LocalProtocolError("goodbye was sent already, or the connection has ended")
        frame = encode_frame(_GOODBYE, body=body, max_frame_bytes=self.send_limit)
        self.said_goodbye = True
        return frame

    def _require_open(self, what: str) -> None:
        if self._phase is not _OPEN:
            raise LocalProtocolError(f"{what} on a connection that is not open")


def _discard(frame: Frame) -> Frame | None:
    """Return the part of an unwanted frame that the caller must still see."""
    return discarded(frame) if frame.handles else None
