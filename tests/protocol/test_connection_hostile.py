"""A peer that sends anything at all: it gets events or a `RemoteProtocolError`, in bounded memory."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paddock_sdk.protocol import Connection, Flag, Frame, Kind, RemoteProtocolError, Role

from .wire_inputs import KINDS, frame_fields, opened_pair, pieces, raw, thorough

LIMIT = 100_000
RESIDENT = 64 * 1024

roles = st.sampled_from(Role)
cuts = st.lists(st.integers(0, 5000), max_size=6)


def _busy(role: Role) -> Connection:
    """An open connection in the middle of everything: calls of both sides under ids 1 to 4."""
    host, worker = opened_pair(LIMIT)
    connection = host if role is Role.HOST else worker
    for flags in (0, 0, Flag.STREAM, Flag.STREAM):
        connection.send_request(0, 0, b"", flags=flags)
    connection.send_credit(3, 2)
    connection.send_credit(4, 2)
    connection.send_cancel(2)
    connection.send_cancel(4)
    connection.receive_data(raw(Kind.REQUEST, id=1) + raw(Kind.REQUEST, id=2, flags=Flag.STREAM))
    return connection


def _feed(connection: Connection, data: bytes, cuts: list[int]) -> tuple[list[Frame], bool]:
    """Return the events, and whether the connection survived; anything else is an error of the test."""
    events: list[Frame] = []
    try:
        for piece in pieces(data, cuts):
            events += connection.receive_data(piece)
            assert 0 < len(connection.get_buffer()) <= max(RESIDENT, LIMIT)
    except RemoteProtocolError:
        assert connection.is_closed
        return events, False
    assert not connection.is_closed
    return events, True


@st.composite
def likely_frames(draw: st.DrawFn) -> bytes:
    """Frames about the few calls there are, in any order."""
    kinds = st.sampled_from([int(kind) for kind in KINDS if kind not in (Kind.HELLO, Kind.WELCOME)])
    ids = st.integers(0, 5)
    one = st.builds(
        lambda kind, id, target, flags: raw(kind, id=id, target=target, flags=flags),
        kinds,
        ids,
        st.integers(0, 3),
        st.sampled_from([0, int(Flag.STREAM), 255]),
    )
    return b"".join(draw(st.lists(one, max_size=8)))


@thorough
@given(role=roles, soup=st.binary(max_size=300), cuts=cuts)
def test_byte_soup_on_a_fresh_connection(role: Role, soup: bytes, cuts: list[int]) -> None:
    _feed(Connection(role, receive_limit=LIMIT), soup, cuts)


@thorough
@given(role=roles, soup=st.binary(max_size=300), cuts=cuts)
def test_byte_soup_on_a_busy_connection(role: Role, soup: bytes, cuts: list[int]) -> None:
    _feed(_busy(role), soup, cuts)


@thorough
@given(role=roles, data=likely_frames(), cuts=cuts)
def test_frames_in_any_order_and_pieces_are_events_or_refused(role: Role, data: bytes, cuts: list[int]) -> None:
    cut_events, cut_survived = _feed(_busy(role), data, cuts)
    whole_events, whole_survived = _feed(_busy(role), data, [])
    assert cut_survived == whole_survived
    if whole_survived:
        assert cut_events == whole_events


@thorough
@given(role=roles, many=st.lists(frame_fields(), max_size=4), cuts=cuts)
def test_frames_with_arbitrary_fields(role: Role, many: list[dict[str, Any]], cuts: list[int]) -> None:
    _feed(_busy(role), b"".join(raw(**fields) for fields in many), cuts)


@thorough
@given(
    role=roles,
    many=st.lists(frame_fields(), min_size=1, max_size=4),
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 7)), max_size=4),
    removed=st.tuples(st.integers(0, 10_000), st.integers(0, 20)),
    inserted=st.tuples(st.integers(0, 10_000), st.binary(max_size=20)),
    cuts=cuts,
)
def test_mutated_frames(
    role: Role,
    many: list[dict[str, Any]],
    flips: list[tuple[int, int]],
    removed: tuple[int, int],
    inserted: tuple[int, bytes],
    cuts: list[int],
) -> None:
    data = bytearray(b"".join(raw(**fields) for fields in many))
    for at, bit in flips:
        data[at % len(data)] ^= 1 << bit
    start = removed[0] % len(data)
    del data[start : start + removed[1]]
    at = inserted[0] % (len(data) + 1)
    data[at:at] = inserted[1]
    _feed(_busy(role), bytes(data), cuts)


@thorough
@given(role=roles, data=likely_frames(), keep=st.integers(0, 10_000))
def test_a_connection_cut_anywhere_ends_each_call_once(role: Role, data: bytes, keep: int) -> None:
    connection = _busy(role)
    events, survived = _feed(connection, data[: keep % (len(data) + 1)], [])
    answered = {event.id for event in events if event.kind in (Kind.RESPONSE, Kind.FAILURE)}
    try:
        orphans = connection.receive_eof()
    except RemoteProtocolError:
        assert survived
    else:
        assert len(orphans) == len(set(orphans))
        assert set(orphans) <= {1, 3}
        if survived:
            assert not answered & set(orphans)
            assert answered | set(orphans) == {1, 3}
    assert (connection.outgoing, connection.incoming) == (0, 0)


def test_a_large_frame_costs_its_own_size_and_not_a_byte_more() -> None:
    connection = _busy(Role.HOST)
    frame = raw(Kind.NOTIFY, body=bytes(LIMIT - 26))
    assert connection.receive_data(frame[:-1]) == []
    assert len(connection.get_buffer()) == 1
    (event,) = connection.receive_data(frame[-1:])
    assert len(event.body) == LIMIT - 26
    assert len(connection.get_buffer()) <= RESIDENT
