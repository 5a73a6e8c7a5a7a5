"""Two connections talk over a transport that delays and cuts as it likes; a small model says what each must see.

Whatever the interleaving: each call ends exactly once for its caller unless the caller gave it up,
frames of one direction keep their order, and nothing is left over when all is said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from paddock_sdk.protocol import Connection, Flag, HandleEntry, Kind, LocalProtocolError, RemoteProtocolError

from .wire_inputs import joined, opened_pair, stateful


@dataclass
class Call:
    """One call as both of its ends know it."""

    id: int
    is_stream: bool
    given_up: bool = False  # by its caller
    ends_seen: int = 0  # by its caller
    credit_in_hand: int = 0  # of its server


@dataclass(frozen=True)
class Sent:
    """A frame on its way."""

    kind: Kind
    size: int
    id: int = 0
    target: int = 0
    handles: tuple[HandleEntry, ...] = ()


@dataclass
class Side:
    """One end, and what is on its way to it."""

    connection: Connection
    made: dict[int, Call] = field(default_factory=dict)  # calls of this side that have not ended here
    served: dict[int, Call] = field(default_factory=dict)  # calls of the other side that have not ended here
    arriving: deque[Sent] = field(default_factory=deque)
    wire: bytearray = field(default_factory=bytearray)
    partly: int = 0  # bytes heard of the frame at the head of `arriving`
    has_left: bool = False
    next_handle: int = 1


sides = st.sampled_from(["host", "worker"])
picks = st.integers(0, 1000)
bodies = st.sampled_from([0, 1, 500, 70_000])
with_handles = st.booleans()


class PairMachine(RuleBasedStateMachine):
    """Any sequence of calls, streams, cancellations, deliveries and ends."""

    def __init__(self) -> None:
        super().__init__()
        host, worker = opened_pair()
        self.sides = {"host": Side(host), "worker": Side(worker)}
        self.all_calls: list[tuple[Side, Call]] = []
        self.over = False

    def _other(self, side: Side) -> Side:
        return self.sides["worker" if side is self.sides["host"] else "host"]

    def _send(
        self, to: Side, data: bytes, kind: Kind, id: int = 0, target: int = 0, handles: Sequence[HandleEntry] = ()
    ) -> None:
        to.wire += data
        to.arriving.append(Sent(kind, len(data), id, target, tuple(handles)))

    def _handles(self, side: Side, wanted: bool) -> tuple[HandleEntry, ...]:
        if not wanted:
            return ()
        side.next_handle += 1
        return (HandleEntry(0, side.next_handle, b"described once"),)

    # -- saying ----------------------------------------------------------------------------

    @precondition(lambda self: not self.over)
    @rule(name=sides, is_stream=st.booleans(), size=bodies, handed=with_handles)
    def call(self, name: str, is_stream: bool, size: int, handed: bool) -> None:
        side = self.sides[name]
        flags = Flag.STREAM if is_stream else Flag.NONE
        if side.has_left:
            with pytest.raises(LocalProtocolError):
                side.connection.send_request(1, 1, b"", flags=flags)
            return
        handles = self._handles(side, handed)
        id, frame = side.connection.send_request(1, 1, bytes(size), handles, flags=flags)
        assert id not in side.made
        call = side.made[id] = Call(id, is_stream)
        self.all_calls.append((side, call))
        self._send(self._other(side), joined(frame), Kind.REQUEST, id, 1, handles)

    @precondition(lambda self: not self.over)
    @rule(name=sides, pick=picks, well=st.booleans(), size=bodies, handed=with_handles)
    def end(self, name: str, pick: int, well: bool, size: int, handed: bool) -> None:
        side = self.sides[name]
        if side.served:
            self._end(side, list(side.served)[pick % len(side.served)], well, size, self._handles(side, handed))

    def _end(self, side: Side, id: int, well: bool, size: int = 0, handles: tuple[HandleEntry, ...] = ()) -> None:
        del side.served[id]
        send = side.connection.send_response if well else side.connection.send_failure
        frame = send(id, bytes(size), handles)
        self._send(self._other(side), joined(frame), Kind.RESPONSE if well else Kind.FAILURE, id, 0, handles)

    @precondition(lambda self: not self.over)
    @rule(name=sides, pick=picks)
    def give_up(self, name: str, pick: int) -> None:
        side = self.sides[name]
        if not side.made:
            return
        call = list(side.made.values())[pick % len(side.made)]
        frame = side.connection.send_cancel(call.id)
        assert (frame is None) == call.given_up
        if frame is not None:
            call.given_up = True
            self._send(self._other(side), joined(frame), Kind.CANCEL, call.id)

    @precondition(lambda self: not self.over)
    @rule(name=sides, pick=picks, items=st.integers(1, 5))
    def allow_items(self, name: str, pick: int, items: int) -> None:
        side = self.sides[name]
        if not side.made:
            return
        call = list(side.made.values())[pick % len(side.made)]
        frame = side.connection.send_credit(call.id, items)
        assert (frame is None) == (call.given_up or not call.is_stream)
        if frame is not None:
            self._send(self._other(side), joined(frame), Kind.CREDIT, call.id, items)

    @precondition(lambda self: not self.over)
    @rule(name=sides, pick=picks, size=bodies, handed=with_handles)
    def send_item(self, name: str, pick: int, size: int, handed: bool) -> None:
        side = self.sides[name]
        if not side.served:
            return
        call = list(side.served.values())[pick % len(side.served)]
        assert side.connection.credit(call.id) == call.credit_in_hand
        if call.credit_in_hand == 0:
            with pytest.raises(LocalProtocolError):
                side.connection.send_item(call.id, b"")
            return
        call.credit_in_hand -= 1
        handles = self._handles(side, handed)
        frame = side.connection.send_item(call.id, bytes(size), handles)
        self._send(self._other(side), joined(frame), Kind.ITEM, call.id, 0, handles)

    @precondition(lambda self: not self.over)
    @rule(name=sides, kind=st.sampled_from([Kind.NOTIFY, Kind.RELEASE, Kind.MIRROR]), size=bodies)
    def remark(self, name: str, kind: Kind, size: int) -> None:
        side = self.sides[name]
        connection = side.connection
        if kind is Kind.RELEASE:
            self._send(self._other(side), joined(connection.send_release(4, 2)), kind, 4, 2)
        elif kind is Kind.MIRROR and name == "host":
            self._send(self._other(side), joined(connection.send_mirror(3, bytes(size))), kind)
        elif kind is Kind.NOTIFY and not side.has_left:
            self._send(self._other(side), joined(connection.send_notify(5, 3, bytes(size))), kind, 0, 5)

    @precondition(lambda self: not self.over)
    @rule(name=sides, chance=st.integers(0, 5))
    def leave(self, name: str, chance: int) -> None:
        side = self.sides[name]
        if chance == 0 and not side.has_left:
            side.has_left = True
            self._send(self._other(side), joined(side.connection.send_goodbye()), Kind.GOODBYE)

    # -- hearing ---------------------------------------------------------------------------

    @precondition(lambda self: not self.over)
    @rule(name=sides, amount=st.sampled_from([1, 25, 26, 60, 600, 66_000, 10_000_000]))
    def deliver(self, name: str, amount: int) -> None:
        self._deliver(self.sides[name], amount)

    def _deliver(self, side: Side, amount: int) -> None:
        data = bytes(side.wire[:amount])
        del side.wire[:amount]
        expected = []
        side.partly += len(data)
        while side.arriving and side.partly >= side.arriving[0].size:
            frame = side.arriving.popleft()
            side.partly -= frame.size
            expected += self._hear(side, frame)
        events = side.connection.receive_data(data)
        assert [(event.kind, event.id, event.target, event.handles) for event in events] == expected

    def _hear(self, side: Side, frame: Sent) -> list[tuple[int, int, int, tuple[HandleEntry, ...]]]:
        """Return what `side` must make of the next frame, and note it in the model."""
        event = [(int(frame.kind), frame.id, frame.target, frame.handles)]
        remains = [(int(Kind.DISCARDED), frame.id, 0, frame.handles)] if frame.handles else []
        match frame.kind:
            case Kind.REQUEST:
                side.served[frame.id] = self._other(side).made[frame.id]
            case Kind.RESPONSE | Kind.FAILURE:
                call = side.made.pop(frame.id)
                if call.given_up:
                    return remains
                call.ends_seen += 1
            case Kind.ITEM:
                return remains if side.made[frame.id].given_up else event
            case Kind.CANCEL:
                return event if frame.id in side.served else []
            case Kind.CREDIT:
                if frame.id not in side.served:
                    return []
                side.served[frame.id].credit_in_hand += frame.target
        return event

    # -- the end ---------------------------------------------------------------------------

    @precondition(lambda self: not self.over)
    @rule(chance=st.integers(0, 15))
    def cut_off(self, chance: int) -> None:
        if chance:
            return
        self.over = True
        for side in self.sides.values():
            waiting = [call.id for call in side.made.values() if not call.given_up]
            if side.partly:
                with pytest.raises(RemoteProtocolError):
                    side.connection.receive_eof()
            else:
                assert sorted(side.connection.receive_eof()) == sorted(waiting)
            for call in side.made.values():
                call.ends_seen += not call.given_up
            assert side.connection.is_closed
            side.made.clear()
            side.served.clear()

    @precondition(lambda self: self.over)
    @rule(name=sides)
    def go_on_after_the_end(self, name: str) -> None:
        connection = self.sides[name].connection
        for _, call in self.all_calls:
            assert connection.send_cancel(call.id) is connection.send_credit(call.id, 1) is None
            with pytest.raises(LocalProtocolError):
                connection.send_response(call.id, b"")
        with pytest.raises(LocalProtocolError):
            connection.send_request(1, 1, b"")
        with pytest.raises(RemoteProtocolError):
            connection.receive_data(b"\0")

    @invariant()
    def both_ends_know_as_many_calls_as_there_are(self) -> None:
        for side in self.sides.values():
            assert side.connection.outgoing == len(side.made)
            assert side.connection.incoming == len(side.served)
            assert all(side.connection.is_serving(id) for id in side.served)

    @invariant()
    def no_call_ends_twice(self) -> None:
        assert all(call.ends_seen <= 1 for _, call in self.all_calls)

    def teardown(self) -> None:
        """Say what is left to say; then each call has ended once, or was given up, and nothing remains."""
        while not self.over and any(side.wire or side.served for side in self.sides.values()):
            for side in self.sides.values():
                self._deliver(side, 10_000_000)
                for id in list(side.served):
                    self._end(side, id, well=True)
        for side in self.sides.values():
            assert (side.connection.outgoing, side.connection.incoming) == (0, 0)
            assert side.connection.receive_eof() == []
        for _, call in self.all_calls:
            assert call.ends_seen == 1 or call.given_up


TestPair = PairMachine.TestCase
TestPair.settings = stateful
