"""The order of frames: which may come when, and that each call ends exactly once.

A `Connection` is one end of one socket. What arrives goes in through `get_buffer` and
`buffer_updated` (or `receive_data`) and comes out as events; what is to be said goes in through
the `send_*` methods and comes out as bytes. It is symmetric but for the handshake. The caller's
own mistakes raise `LocalProtocolError` and change nothing; the peer's raise
`RemoteProtocolError`, after which only `is_closed` is of use.
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
    HandleEntry,
    Kind,
    Parts,
    encode_frame,
)

_LAST_ID: Final = 0xFFFFFFFF
_MAX_CREDIT: Final = 1 << 16  # items a caller may allow ahead; beyond it a stream has no back-pressure at all


class Role(Enum):
    """Which end this is; the worker speaks first."""

    HOST = "host"
    WORKER = "worker"


class _Phase(Enum):
    GREETING = "greeting"
    OPEN = "open"
    CLOSED = "closed"


class _Call:
    """What is known of an unfinished call, made or served."""

    __slots__ = ("cancelled", "credit", "is_stream")

    def __init__(self, is_stream: bool) -> None:
        self.is_stream = is_stream
        self.cancelled = False
        self.credit = 0


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
_PLAIN_CANCELLED: Final = _Call(is_stream=False)
_PLAIN_CANCELLED.cancelled = True


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
        "peer_said_goodbye",
        "said_goodbye",
        "send_limit",
    )

    def __init__(
        self, role: Role, *, receive_limit: int = MAX_FRAME_BYTES, send_limit: int = MAX_FRAME_BYTES
    ) -> None:
        self._role = role
        self._decoder = FrameDecoder(receive_limit)
        self._phase = _Phase.GREETING
        self._next_id = 1
        self._outgoing: dict[int, _Call] = {}
        self._incoming: dict[int, _Call] = {}
        self.send_limit = send_limit
        self.said_goodbye = False
        self.peer_said_goodbye = False

    # -- what stands open ------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._phase is _Phase.CLOSED

    @property
    def outgoing(self) -> int:
        """How many calls this side made that have not ended."""
        return len(self._outgoing)

    @property
    def incoming(self) -> int:
        """How many calls this side serves."""
        return len(self._incoming)

    def is_serving(self, id: int) -> bool:
        """Whether the peer's call `id` still waits for its end."""
        return id in self._incoming

    # -- receiving -------------------------------------------------------------------------

    def get_buffer(self) -> memoryview:
        """Return the memory to receive the next bytes into; never empty."""
        return self._decoder.get_buffer()

    def buffer_updated(self, count: int) -> list[Frame]:
        """Take note of `count` received bytes and return the events they complete, in order.

        Raises:
            RemoteProtocolError: the peer broke the protocol; the connection is closed.
        """
        try:
            return self._accept_all(self._decoder.buffer_updated(count))
        except RemoteProtocolError:
            self._phase = _Phase.CLOSED
            raise

    def receive_data(self, data: bytes) -> list[Frame]:
        """Do as `buffer_updated` does, with a copy of `data`."""
        try:
            return self._accept_all(self._decoder.receive_data(data))
        except RemoteProtocolError:
            self._phase = _Phase.CLOSED
            raise

    def receive_eof(self) -> list[int]:
        """Close, and return the ids of the calls made here that will never be answered.

        Cancelled calls are not among them: nobody waits for those.

        Raises:
            RemoteProtocolError: the stream ended inside a frame.
        """
        self._phase = _Phase.CLOSED
        orphans = [id for id, call in self._outgoing.items() if not call.cancelled]
        self._outgoing.clear()
        self._incoming.clear()
        if not self._decoder.is_empty:
            raise RemoteProtocolError("the stream ended inside a frame")
        return orphans

    def _accept_all(self, frames: list[Frame]) -> list[Frame]:
        if self._phase is _Phase.OPEN and len(frames) == 1:
            return frames if self._accept(frames[0]) else []
        events: list[Frame] = []
        for frame in frames:
            if self._phase is not _Phase.OPEN:
                self._accept_greeting(frame)
                events.append(frame)
            elif self._accept(frame):
                events.append(frame)
        return events

    def _accept_greeting(self, frame: Frame) -> None:
        expected = Kind.HELLO if self._role is Role.HOST else Kind.WELCOME
        if self._phase is _Phase.CLOSED:
            raise RemoteProtocolError("a frame after the end of the connection")
        if frame.kind != expected:
            raise RemoteProtocolError(f"the first frame is of kind {Kind(frame.kind).name}, not {expected.name}")
        if self._role is Role.WORKER:
            self._phase = _Phase.OPEN

    def _accept(self, frame: Frame) -> bool:
        """Check one frame against what stands open; return whether it is an event for the caller."""
        kind = frame.kind
        if kind == _REQUEST:
            if not frame.id or frame.id in self._incoming:
                raise RemoteProtocolError(f"a request under id {frame.id}, which is not free")
            self._incoming[frame.id] = _Call(is_stream=True) if frame.flags & _STREAM else _PLAIN
            return True
        if kind == _RESPONSE or kind == _FAILURE:
            call = self._outgoing.pop(frame.id, None)
            if call is None:
                raise RemoteProtocolError(f"an answer to call {frame.id}, which was never made or has ended")
            return not call.cancelled
        if kind == _MIRROR:
            if self._role is Role.HOST:
                raise RemoteProtocolError("a worker sent a mirror change; only the host may")
            return True
        if kind == _NOTIFY or kind == _RELEASE:
            return True
        if kind == _CANCEL:
            # The end of a call and its cancellation may cross on the wire: then there is nothing left to cancel.
            return frame.id in self._incoming
        if kind == _ITEM:
            call = self._outgoing.get(frame.id)
            if call is None or not call.is_stream:
                raise RemoteProtocolError(f"an item for call {frame.id}, which has no open stream")
            if call.credit == 0:
                raise RemoteProtocolError(f"an item for call {frame.id} beyond the credit it was given")
            call.credit -= 1
            return not call.cancelled
        if kind == _CREDIT:
            served = self._incoming.get(frame.id)
            if served is None:
                return False  # crossed with the stream's end
            if not served.is_stream or not 0 < frame.target <= _MAX_CREDIT - served.credit:
                raise RemoteProtocolError(f"credit of {frame.target} for call {frame.id}")
            served.credit += frame.target
            return True
        if kind == _GOODBYE:
            if self.peer_said_goodbye:
                raise RemoteProtocolError("a second goodbye")
            self.peer_said_goodbye = True
            return True
        raise RemoteProtocolError(f"a frame of kind {Kind(kind).name} in an open connection")

    # -- sending ---------------------------------------------------------------------------

    def send_hello(self, body: Buffer) -> bytes | Parts:
        """Greet as a worker."""
        if self._role is not Role.WORKER or self._phase is not _Phase.GREETING:
            raise LocalProtocolError("only a worker says hello, and only once")
        return encode_frame(_HELLO, body=body)

    def send_welcome(self, body: Buffer) -> bytes | Parts:
        """Answer a worker's hello; from here on the connection is open."""
        if self._role is not Role.HOST or self._phase is not _Phase.GREETING:
            raise LocalProtocolError("only a host says welcome, and only once")
        self._phase = _Phase.OPEN
        return encode_frame(_WELCOME, body=body)

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
    ) -> tuple[int, bytes | Parts]:
        """Start a call; return its id and its bytes."""
        if self._phase is not _Phase.OPEN:
            raise LocalProtocolError("a request on a connection that is not open")
        id = self._next_id
        outgoing = self._outgoing
        while id in outgoing:  # only after four thousand million calls
            id = id % _LAST_ID + 1
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
        self._next_id = id % _LAST_ID + 1
        outgoing[id] = _Call(is_stream=True) if flags & _STREAM else _PLAIN
        return id, frame

    def send_response(self, id: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | Parts:
        """End call `id` well."""
        return self._end(_RESPONSE, id, body, handles)

    def send_failure(self, id: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | Parts:
        """End call `id` badly; the body is an encoded exception."""
        return self._end(_FAILURE, id, body, handles)

    def _end(self, kind: int, id: int, body: Buffer, handles: Sequence[HandleEntry]) -> bytes | Parts:
        if id not in self._incoming:
            raise LocalProtocolError(f"call {id} is not open, or has ended already")
        frame = encode_frame(kind, id=id, handles=handles, body=body, max_frame_bytes=self.send_limit)
        del self._incoming[id]
        return frame

    def send_notify(self, target: int, method: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | Parts:
        """Say something nobody waits for."""
        self._require_open("a notification")
        return encode_frame(
            _NOTIFY, method=method, target=target, handles=handles, body=body, max_frame_bytes=self.send_limit
        )

    def send_mirror(self, section: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | Parts:
        """Tell the worker of a change of shared state."""
        self._require_open("a mirror change")
        if self._role is not Role.HOST:
            raise LocalProtocolError("only the host sends mirror changes")
        return encode_frame(_MIRROR, method=section, handles=handles, body=body, max_frame_bytes=self.send_limit)

    def send_cancel(self, id: int) -> bytes | Parts | None:
        """Give up call `id`: its end, when it comes, is swallowed. None if it has ended or was given up."""
        call = self._outgoing.get(id)
        if call is None or call.cancelled:
            return None
        if call.is_stream:
            call.cancelled = True
        else:
            self._outgoing[id] = _PLAIN_CANCELLED
        return encode_frame(_CANCEL, id=id)

    def send_item(self, id: int, body: Buffer, handles: Sequence[HandleEntry] = ()) -> bytes | Parts:
        """Send one item of the stream that answers call `id`; `credit(id)` must be positive."""
        call = self._incoming.get(id)
        if call is None or not call.is_stream:
            raise LocalProtocolError(f"call {id} is not an open stream")
        if call.credit == 0:
            raise LocalProtocolError(f"no credit left on the stream of call {id}")
        frame = encode_frame(_ITEM, id=id, handles=handles, body=body, max_frame_bytes=self.send_limit)
        call.credit -= 1
        return frame

    def credit(self, id: int) -> int:
        """How many items may be sent on the stream of call `id` right now."""
        call = self._incoming.get(id)
        return call.credit if call is not None else 0

    def send_credit(self, id: int, items: int) -> bytes | Parts | None:
        """Allow `items` more items on the stream of call `id`; None if it has ended."""
        call = self._outgoing.get(id)
        if call is None or not call.is_stream:
            return None
        if not 0 < items <= _MAX_CREDIT - call.credit:
            raise LocalProtocolError(f"credit of {items} on top of {call.credit}; the limit is {_MAX_CREDIT}")
        call.credit += items
        return encode_frame(_CREDIT, id=id, target=items)

    def send_release(self, id: int, times: int) -> bytes | Parts:
        """Tell the keeper of object `id` that this side dropped it, having been handed it `times` times."""
        self._require_open("a release")
        return encode_frame(_RELEASE, id=id, target=times)

    def send_goodbye(self, body: Buffer = b"") -> bytes | Parts:
        """Announce that nothing new will be started here."""
        if self._phase is _Phase.CLOSED or self.said_goodbye:
            raise LocalProtocolError("goodbye was said, or nobody is left to hear it")
        self.said_goodbye = True
        return encode_frame(_GOODBYE, body=body)

    def _require_open(self, what: str) -> None:
        if self._phase is not _Phase.OPEN:
            raise LocalProtocolError(f"{what} on a connection that is not open")
