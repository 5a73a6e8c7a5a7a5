"""The order of frames as tables: what each state hears gladly, ignores and refuses, and what it may say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from paddock_sdk.protocol import (
    Connection,
    Discarded,
    Flag,
    HandleEntry,
    Kind,
    LocalProtocolError,
    RemoteProtocolError,
    Role,
)
from paddock_sdk.protocol import connection as connection_module
from support.rows import each_row

from .wire_inputs import joined, opened_pair, raw

# -- states --------------------------------------------------------------------------------


def _open(role: Role) -> Connection:
    host, worker = opened_pair()
    return host if role is Role.HOST else worker


def _greeted(role: Role) -> Connection:
    connection = Connection(role)
    if role is Role.HOST:
        connection.receive_data(raw(Kind.HELLO))
    else:
        connection.send_hello(b"")
    return connection


def _serving(role: Role, flags: int = 0, *, cancelled: bool = False) -> Connection:
    connection = _open(role)
    connection.receive_data(raw(Kind.REQUEST, id=1, flags=flags))
    if cancelled:
        connection.receive_data(raw(Kind.CANCEL, id=1))
    return connection


def _waiting(role: Role, flags: int = 0, *, credit: int = 0, cancelled: bool = False) -> Connection:
    connection = _open(role)
    assert connection.send_request(0, 0, b"", flags=flags)[0] == 1
    if credit:
        assert connection.send_credit(1, credit)
    if cancelled:
        assert connection.send_cancel(1)
    return connection


def _left_by_peer(role: Role) -> Connection:
    connection = _serving(role)
    connection.receive_data(raw(Kind.GOODBYE))
    return connection


def _leaving(role: Role) -> Connection:
    connection = _serving(role)
    connection.send_goodbye()
    return connection


def _broken(role: Role) -> Connection:
    connection = _serving(role)
    with pytest.raises(RemoteProtocolError):
        connection.receive_data(raw(Kind.RESPONSE, id=99))
    return connection


def _ended(role: Role) -> Connection:
    connection = _serving(role)
    connection.receive_eof()
    return connection


STATES: dict[str, Callable[[Role], Connection]] = {
    "fresh": Connection,
    "fresh, left": lambda role: _after(Connection(role), raw(Kind.GOODBYE)),
    "greeted": _greeted,
    "greeted, left": lambda role: _after(_greeted(role), raw(Kind.GOODBYE)),
    "open": _open,
    "serving": _serving,
    "serving, cancelled": lambda role: _serving(role, cancelled=True),
    "serving stream": lambda role: _serving(role, Flag.STREAM),
    "serving stream, cancelled": lambda role: _serving(role, Flag.STREAM, cancelled=True),
    "waiting": _waiting,
    "waiting, cancelled": lambda role: _waiting(role, cancelled=True),
    "waiting stream": lambda role: _waiting(role, Flag.STREAM),
    "waiting stream, credit": lambda role: _waiting(role, Flag.STREAM, credit=1),
    "waiting stream, credit, cancelled": lambda role: _waiting(role, Flag.STREAM, credit=1, cancelled=True),
    "left by peer": _left_by_peer,
    "leaving": _leaving,
    "broken": _broken,
    "ended": _ended,
}


def _after(connection: Connection, data: bytes) -> Connection:
    connection.receive_data(data)
    return connection


# -- hearing -------------------------------------------------------------------------------

# E: an event. o: heard and of no consequence. x: the peer broke the protocol. Every frame is about call 1.
HEARING = """
                                |hello welcome request response failure notify cancel item credit mirror release goodbye
HOST fresh                      |  E      x       x       x        x       x      x     x     x      x      x       E
HOST fresh, left                |  x      x       x       x        x       x      x     x     x      x      x       x
HOST greeted                    |  x      x       x       x        x       x      x     x     x      x      x       E
HOST greeted, left              |  x      x       x       x        x       x      x     x     x      x      x       x
HOST open                       |  x      x       E       x        x       E      o     x     o      x      E       E
HOST serving                    |  x      x       x       x        x       E      E     x     x      x      E       E
HOST serving, cancelled         |  x      x       x       x        x       E      x     x     x      x      E       E
HOST serving stream             |  x      x       x       x        x       E      E     x     E      x      E       E
HOST serving stream, cancelled  |  x      x       x       x        x       E      x     x     E      x      E       E
HOST waiting                    |  x      x       E       E        E       E      o     x     o      x      E       E
HOST waiting, cancelled         |  x      x       E       o        o       E      o     x     o      x      E       E
HOST waiting stream             |  x      x       E       E        E       E      o     x     o      x      E       E
HOST waiting stream, credit     |  x      x       E       E        E       E      o     E     o      x      E       E
HOST waiting stream, credit, cancelled | x   x       E       o        o       E      o     o     o      x      E       E
HOST left by peer               |  x      x       x       x        x       x      E     x     x      x      E       x
HOST leaving                    |  x      x       x       x        x       E      E     x     x      x      E       E
HOST broken                     |  x      x       x       x        x       x      x     x     x      x      x       x
HOST ended                      |  x      x       x       x        x       x      x     x     x      x      x       x
WORKER fresh                    |  x      x       x       x        x       x      x     x     x      x      x       E
WORKER fresh, left              |  x      x       x       x        x       x      x     x     x      x      x       x
WORKER greeted                  |  x      E       x       x        x       x      x     x     x      x      x       E
WORKER greeted, left            |  x      x       x       x        x       x      x     x     x      x      x       x
WORKER open                     |  x      x       E       x        x       E      o     x     o      E      E       E
WORKER serving                  |  x      x       x       x        x       E      E     x     x      E      E       E
WORKER serving, cancelled       |  x      x       x       x        x       E      x     x     x      E      E       E
WORKER serving stream           |  x      x       x       x        x       E      E     x     E      E      E       E
WORKER serving stream, cancelled|  x      x       x       x        x       E      x     x     E      E      E       E
WORKER waiting                  |  x      x       E       E        E       E      o     x     o      E      E       E
WORKER waiting, cancelled       |  x      x       E       o        o       E      o     x     o      E      E       E
WORKER waiting stream           |  x      x       E       E        E       E      o     x     o      E      E       E
WORKER waiting stream, credit   |  x      x       E       E        E       E      o     E     o      E      E       E
WORKER waiting stream, credit, cancelled | x x       E       o        o       E      o     o     o      E      E       E
WORKER left by peer             |  x      x       x       x        x       x      E     x     x      E      E       x
WORKER leaving                  |  x      x       x       x        x       E      E     x     x      E      E       E
WORKER broken                   |  x      x       x       x        x       x      x     x     x      x      x       x
WORKER ended                    |  x      x       x       x        x       x      x     x     x      x      x       x
"""


def _cells(table: str) -> list[tuple[Role, str, str, str]]:
    head, *rows = table.strip("\n").splitlines()
    columns = head.partition("|")[2].split()
    cells = []
    for row in rows:
        name, _, marks = row.partition("|")
        role, _, state = name.strip().partition(" ")
        for column, mark in zip(columns, marks.split(), strict=True):
            cells.append((Role[role], state, column, mark))
    return cells


def _heard(role: Role, state: str, kind: str) -> str:
    """Return the mark of a cell, or what else became of the frame."""
    connection = STATES[state](role)
    try:
        events = connection.receive_data(raw(Kind[kind.upper()], id=1, target=1))
    except RemoteProtocolError:
        return "x" if connection.is_closed and not connection.incoming else "refused, but the connection is open"
    if connection.is_closed:
        return "closed without an error"
    names = [Kind(event.kind).name for event in events]
    return {(): "o", (kind.upper(),): "E"}.get(tuple(names), f"events {names}")


def test_what_each_state_makes_of_each_frame() -> None:
    wrong = [(*cell, heard) for cell in _cells(HEARING) if (heard := _heard(*cell[:3])) != cell[3]]
    assert wrong == []


def test_the_table_of_frames_is_complete() -> None:
    assert {(cell[0], cell[1]) for cell in _cells(HEARING)} == {(role, name) for role in Role for name in STATES}


# -- saying --------------------------------------------------------------------------------

# B: bytes. n: None, as the connection has ended. x: the caller's own mistake. Every word is about call 1.
SAYING = """
                                |hello welcome request response failure notify cancel item credit mirror release goodbye
HOST fresh                      |  x      x       x       x        x       x      n     x     n      x      x       B
HOST greeted                    |  x      B       x       x        x       x      n     x     n      x      x       B
HOST open                       |  x      x       B       x        x       B      n     x     n      B      B       B
HOST serving                    |  x      x       B       B        B       B      n     x     n      B      B       B
HOST serving, cancelled         |  x      x       B       B        B       B      n     x     n      B      B       B
HOST serving stream             |  x      x       B       B        B       B      n     x     n      B      B       B
HOST waiting                    |  x      x       B       x        x       B      B     x     n      B      B       B
HOST waiting, cancelled         |  x      x       B       x        x       B      n     x     n      B      B       B
HOST waiting stream             |  x      x       B       x        x       B      B     x     B      B      B       B
HOST waiting stream, credit, cancelled | x   x       B       x        x       B      n     x     n      B      B       B
HOST left by peer               |  x      x       B       B        B       B      n     x     n      B      B       B
HOST leaving                    |  x      x       x       B        B       x      n     x     n      B      B       x
HOST broken                     |  x      x       x       x        x       x      n     x     n      x      x       x
HOST ended                      |  x      x       x       x        x       x      n     x     n      x      x       x
WORKER fresh                    |  B      x       x       x        x       x      n     x     n      x      x       B
WORKER greeted                  |  x      x       x       x        x       x      n     x     n      x      x       B
WORKER open                     |  x      x       B       x        x       B      n     x     n      x      B       B
WORKER serving                  |  x      x       B       B        B       B      n     x     n      x      B       B
WORKER serving, cancelled       |  x      x       B       B        B       B      n     x     n      x      B       B
WORKER serving stream           |  x      x       B       B        B       B      n     x     n      x      B       B
WORKER waiting                  |  x      x       B       x        x       B      B     x     n      x      B       B
WORKER waiting, cancelled       |  x      x       B       x        x       B      n     x     n      x      B       B
WORKER waiting stream           |  x      x       B       x        x       B      B     x     B      x      B       B
WORKER waiting stream, credit, cancelled | x x       B       x        x       B      n     x     n      x      B       B
WORKER left by peer             |  x      x       B       B        B       B      n     x     n      x      B       B
WORKER leaving                  |  x      x       x       B        B       x      n     x     n      x      B       x
WORKER broken                   |  x      x       x       x        x       x      n     x     n      x      x       x
WORKER ended                    |  x      x       x       x        x       x      n     x     n      x      x       x
"""

WORDS: dict[str, Callable[[Connection], Any]] = {
    "hello": lambda connection: connection.send_hello(b""),
    "welcome": lambda connection: connection.send_welcome(b""),
    "request": lambda connection: connection.send_request(0, 1, b"")[1],
    "response": lambda connection: connection.send_response(1, b""),
    "failure": lambda connection: connection.send_failure(1, b""),
    "notify": lambda connection: connection.send_notify(0, 1, b""),
    "cancel": lambda connection: connection.send_cancel(1),
    "item": lambda connection: connection.send_item(1, b""),
    "credit": lambda connection: connection.send_credit(1, 1),
    "mirror": lambda connection: connection.send_mirror(1, b""),
    "release": lambda connection: connection.send_release(1, 1),
    "goodbye": lambda connection: connection.send_goodbye(),
}


def _snapshot(connection: Connection) -> tuple[object, ...]:
    return (
        connection.is_closed,
        connection.outgoing,
        connection.incoming,
        connection.credit(1),
        connection.is_serving(1),
        connection.said_goodbye,
        connection.peer_said_goodbye,
    )


def _said(role: Role, state: str, word: str) -> str:
    """Return the mark of a cell, or what else became of the word."""
    connection = STATES[state](role)
    before = _snapshot(connection)
    try:
        said = WORDS[word](connection)
    except LocalProtocolError:
        mark = "x"
    else:
        mark = "n" if said is None else "B"
        if mark == "B":
            return "B" if joined(said)[4] == Kind[word.upper()] else "another kind of frame"
    return mark if _snapshot(connection) == before else f"{mark}, but the connection was changed"


def test_what_each_state_may_say() -> None:
    assert [(*cell, said) for cell in _cells(SAYING) if (said := _said(*cell[:3])) != cell[3]] == []


@each_row("role", Role)
@each_row(
    "word",
    [
        lambda connection: connection.send_request(0, 1, b"x" * 100),
        lambda connection: connection.send_request(0, 1 << 16, b""),
        lambda connection: connection.send_response(1, b"x" * 100),
        lambda connection: connection.send_failure(1, b"x" * 100),
        lambda connection: connection.send_item(2, b"x" * 100),
        lambda connection: connection.send_item(2, b"", [HandleEntry(3, 1)]),
        lambda connection: connection.send_goodbye(b"x" * 100),
        lambda connection: connection.send_credit(3, 0),
        lambda connection: connection.send_credit(3, 1 << 16),
        lambda connection: connection.send_release(1, -1),
    ],
)
def test_a_message_that_cannot_be_sent_leaves_everything_as_it_was(
    role: Role, word: Callable[[Connection], Any]
) -> None:
    connection = _open(role)
    connection.send_limit = 100
    connection.receive_data(raw(Kind.REQUEST, id=1) + raw(Kind.REQUEST, id=2, flags=Flag.STREAM))
    connection.receive_data(raw(Kind.CREDIT, id=2, target=1))
    assert [connection.send_request(0, 0, b"", flags=Flag.STREAM)[0] for _ in range(3)] == [1, 2, 3]
    assert connection.send_credit(3, 1)
    before = (*_snapshot(connection), connection.credit(2))
    with pytest.raises(LocalProtocolError):
        word(connection)
    assert (*_snapshot(connection), connection.credit(2)) == before
    assert connection.send_request(0, 0, b"")[0] == 4  # the failed ones used up no id


# -- greetings -----------------------------------------------------------------------------


def test_greetings_that_are_too_large_change_nothing() -> None:
    worker = Connection(Role.WORKER, send_limit=50)
    with pytest.raises(LocalProtocolError):
        worker.send_hello(bytes(50))
    assert worker.send_hello(b"")
    host = Connection(Role.HOST, send_limit=50)
    host.receive_data(raw(Kind.HELLO))
    with pytest.raises(LocalProtocolError):
        host.send_welcome(bytes(50))
    assert host.send_welcome(b"")


def test_a_worker_that_does_not_wait_for_the_welcome_is_refused() -> None:
    host = Connection(Role.HOST)
    with pytest.raises(RemoteProtocolError, match="REQUEST before the greetings"):
        host.receive_data(raw(Kind.HELLO) + raw(Kind.REQUEST, id=1))


# -- calls ---------------------------------------------------------------------------------


def test_a_request_carries_everything_it_was_given() -> None:
    host, worker = opened_pair()
    entry = HandleEntry(0, 4, b"d")
    id, frame = host.send_request(6, 7, b"body", [entry], flags=Flag.IN_PLACE, parent=8, deadline_ms=9)
    (request,) = worker.receive_data(joined(frame))
    assert request == (Kind.REQUEST, Flag.IN_PLACE, 7, id, 6, 8, 9, (entry,), b"body")


def test_a_request_without_an_id_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="under id 0"):
        _open(Role.HOST).receive_data(raw(Kind.REQUEST))


def test_ids_start_again_after_the_last_one_and_pass_over_those_in_use() -> None:
    connection = _waiting(Role.HOST)
    assert connection_module.LAST_ID == 0xFFFFFFFF
    with mock.patch.object(connection_module, "LAST_ID", 3):
        assert [connection.send_request(0, 0, b"")[0] for _ in range(2)] == [2, 3]
        connection.receive_data(raw(Kind.RESPONSE, id=2))
        assert connection.send_request(0, 0, b"")[0] == 2


@each_row("kind", [Kind.RESPONSE, Kind.FAILURE, Kind.ITEM])
def test_handles_of_unawaited_messages_are_still_reported(kind: Kind) -> None:
    connection = _waiting(Role.WORKER, Flag.STREAM, credit=1, cancelled=True)
    entry = HandleEntry(0, 12, b"first seen here")
    (event,) = connection.receive_data(raw(kind, id=1, handles=[entry], body=b"unwanted"))
    assert type(event) is Discarded
    assert (event.kind, event.id, event.handles, event.body) == (Kind.DISCARDED, 1, (entry,), b"")


# -- streams -------------------------------------------------------------------------------


@each_row("cancelled", [False, True])
def test_cancelling_a_stream_gives_no_leave_to_flood_it(cancelled: bool) -> None:
    connection = _waiting(Role.HOST, Flag.STREAM, credit=3, cancelled=cancelled)
    connection.receive_data(raw(Kind.ITEM, id=1) * 3)
    with pytest.raises(RemoteProtocolError, match="beyond the credit"):
        connection.receive_data(raw(Kind.ITEM, id=1))


@each_row("items", [0, (1 << 16) + 1, 0xFFFFFFFF])
def test_credit_out_of_bounds_is_refused(items: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"credit of {items}"):
        _serving(Role.WORKER, Flag.STREAM).receive_data(raw(Kind.CREDIT, id=1, target=items))
    with pytest.raises(LocalProtocolError, match=f"credit of {items}"):
        _waiting(Role.WORKER, Flag.STREAM).send_credit(1, items)


def test_credit_adds_up_to_its_bound_and_no_further() -> None:
    serving, waiting = _serving(Role.WORKER, Flag.STREAM), _waiting(Role.WORKER, Flag.STREAM)
    for items in (1 << 15, 1 << 15):
        serving.receive_data(raw(Kind.CREDIT, id=1, target=items))
        assert waiting.send_credit(1, items)
    assert serving.credit(1) == 1 << 16
    with pytest.raises(RemoteProtocolError):
        serving.receive_data(raw(Kind.CREDIT, id=1, target=1))
    with pytest.raises(LocalProtocolError):
        waiting.send_credit(1, 1)


# -- the end -------------------------------------------------------------------------------


@each_row("size", [1, 20, 70_000])
def test_a_stream_that_ends_inside_a_frame_was_broken(size: int) -> None:
    connection = _waiting(Role.HOST)
    connection.receive_data(raw(Kind.NOTIFY, body=bytes(100_000))[:size])
    with pytest.raises(RemoteProtocolError, match="inside a frame"):
        connection.receive_eof()
    assert (connection.is_closed, connection.outgoing, connection.incoming) == (True, 0, 0)


def test_bytes_after_a_breach_are_refused_however_many_there_are() -> None:
    connection = _broken(Role.HOST)
    for data in (b"\0", raw(Kind.NOTIFY), bytes(200_000)):
        with pytest.raises(RemoteProtocolError, match="after the end"):
            connection.receive_data(data)
    with pytest.raises(RemoteProtocolError, match="after the end"):
        connection.buffer_updated(1)
