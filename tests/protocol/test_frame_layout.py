"""The bytes of a frame, field by field, and what is refused in its header and handle table."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given

from paddock_sdk.protocol import (
    MAX_HANDLES,
    FrameDecoder,
    HandleEntry,
    HandleSide,
    Kind,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
)
from paddock_sdk.protocol import frames as frames_module
from paddock_sdk.protocol.frames import (
    JOIN_BELOW_BYTES,
    MAX_DESCRIBED_BYTES,
    MAX_DESCRIPTION_BYTES,
    FrameParts,
    encode_frame,
)
from support.rows import each_row

from .wire_inputs import KINDS, frame_fields, plain, raw, thorough


def test_a_header_is_twenty_six_bytes_of_big_endian_fields_in_this_order() -> None:
    frame = raw(
        Kind.REQUEST,
        flags=5,
        method=0x0102,
        id=0x03040506,
        target=0x0708090A,
        parent=0x0B0C0D0E,
        deadline_ms=0x0F101112,
        handles=[HandleEntry(HandleSide.RECEIVER, 0x13141516, b"de")],
        body=b"body",
    )
    assert frame.hex(" ") == (
        "00 00 00 25 "  # what follows: 22 bytes of header, 11 of table, 4 of body
        "03 05 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f 10 11 12 00 01 "
        "01 13 14 15 16 00 00 00 02 64 65 "
        "62 6f 64 79"
    )


@each_row("kind", KINDS)
def test_each_kind_has_its_own_type(kind: Kind) -> None:
    (frame,) = FrameDecoder().receive_data(raw(kind))
    assert (frame.kind, type(frame).__name__) == (kind, kind.name.capitalize())


@thorough
@given(fields=frame_fields())
def test_every_field_comes_out_as_it_went_in(fields: dict[str, object]) -> None:
    (frame,) = FrameDecoder().receive_data(raw(**fields))  # type: ignore[arg-type]
    assert plain(frame)._asdict() == fields


@each_row("kind", [0, 13, 255])
def test_a_kind_without_a_meaning_is_refused(kind: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"unknown kind {kind}"):
        FrameDecoder().receive_data(raw(kind))


def test_a_large_body_is_left_uncopied_when_sent() -> None:
    body = bytearray(JOIN_BELOW_BYTES)
    frame = encode_frame(Kind.RESPONSE, id=1, body=body)
    assert isinstance(frame, FrameParts)
    assert frame.body is body
    assert isinstance(encode_frame(Kind.RESPONSE, id=1, body=body[:-1]), bytes)


@each_row("size", [0, 1, JOIN_BELOW_BYTES - 1])
def test_a_small_body_is_a_copy_that_later_frames_cannot_change(size: int) -> None:
    decoder = FrameDecoder()
    (first,) = decoder.receive_data(raw(Kind.NOTIFY, body=b"a" * size))
    decoder.receive_data(raw(Kind.NOTIFY, body=b"b" * size))
    assert first.body == b"a" * size


def test_a_large_body_is_received_into_memory_of_its_own() -> None:
    decoder = FrameDecoder()
    (first,) = decoder.receive_data(raw(Kind.NOTIFY, body=b"a" * JOIN_BELOW_BYTES))
    (second,) = decoder.receive_data(raw(Kind.NOTIFY, body=b"b" * JOIN_BELOW_BYTES))
    assert isinstance(first.body, memoryview)
    assert (bytes(first.body[:1]), bytes(second.body[:1])) == (b"a", b"b")


# -- what the sender may not send ----------------------------------------------------------


@each_row(
    "fields",
    [
        {"method": 0x10000},
        {"method": -1},
        {"flags": 256},
        {"id": 1 << 32},
        {"target": -1},
        {"deadline_ms": 1 << 32},
        {"handles": [HandleEntry(2, 1)]},
        {"handles": [HandleEntry(-1, 1)]},
        {"handles": [HandleEntry(0, 1 << 32)]},
        {"handles": [HandleEntry(0, 1, bytes(MAX_DESCRIPTION_BYTES + 1))]},
        {"handles": [HandleEntry(0, 1)] * (MAX_HANDLES + 1)},
    ],
    ids=str,
)
def test_a_number_that_does_not_fit_is_the_senders_own_mistake(fields: dict[str, object]) -> None:
    with pytest.raises(LocalProtocolError):
        raw(Kind.REQUEST, **fields)


def test_the_limit_on_a_frame_counts_every_byte_of_it() -> None:
    handles = [HandleEntry(0, 1, b"xyz")]
    whole = raw(Kind.RESPONSE, handles=handles, body=b"12345")
    assert raw(Kind.RESPONSE, handles=handles, body=b"12345", max_frame_bytes=len(whole)) == whole
    with pytest.raises(
        LocalProtocolError, match=f"a frame of {len(whole)} bytes is over the limit of {len(whole) - 1}"
    ):
        encode_frame(Kind.RESPONSE, handles=handles, body=b"12345", max_frame_bytes=len(whole) - 1)
    assert FrameDecoder(len(whole)).receive_data(whole)
    with pytest.raises(RemoteProtocolError, match="over the limit"):
        FrameDecoder(len(whole) - 1).receive_data(whole)


# -- the handle table ----------------------------------------------------------------------


def _with_table(table: bytes, count: int, body: bytes = b"") -> bytes:
    frame = bytearray(raw(Kind.RESPONSE, id=1, body=table + body))
    frame[24:26] = count.to_bytes(2, "big")
    return bytes(frame)


def _row(side: int, id: int, size: int, description: bytes = b"") -> bytes:
    return struct.pack(">BII", side, id, size) + description


def test_as_many_handles_as_allowed_arrive() -> None:
    handles = tuple(HandleEntry(HandleSide.SENDER, number) for number in range(MAX_HANDLES))
    (frame,) = FrameDecoder().receive_data(raw(Kind.REQUEST, id=1, handles=handles))
    assert frame.handles == handles


def test_a_description_as_long_as_allowed_arrives() -> None:
    entry = HandleEntry(HandleSide.SENDER, 7, b"d" * MAX_DESCRIPTION_BYTES)
    (frame,) = FrameDecoder().receive_data(raw(Kind.REQUEST, id=1, handles=[entry], body=b"small"))
    assert frame.handles == (entry,)
    assert frame.body == b"small"


def test_descriptions_together_are_bounded_at_both_ends() -> None:
    count = MAX_DESCRIBED_BYTES // MAX_DESCRIPTION_BYTES
    entries = [HandleEntry(HandleSide.SENDER, number, bytes(MAX_DESCRIPTION_BYTES)) for number in range(count)]
    assert len(FrameDecoder().receive_data(raw(Kind.REQUEST, id=1, handles=entries))) == 1
    with pytest.raises(LocalProtocolError, match="descriptions of more than"):
        raw(Kind.REQUEST, id=1, handles=[*entries, HandleEntry(HandleSide.SENDER, 99, b"d")])
    rows = _row(0, 1, MAX_DESCRIPTION_BYTES, bytes(MAX_DESCRIPTION_BYTES)) * count + _row(0, 99, 1, b"d")
    head = bytearray(raw(Kind.RESPONSE, id=1))
    head[:4] = (len(head) - 4 + len(rows)).to_bytes(4, "big")
    head[24:26] = (count + 1).to_bytes(2, "big")
    with pytest.raises(RemoteProtocolError, match="descriptions of more than"):
        FrameDecoder().receive_data(bytes(head) + rows)


@each_row(
    ("data", "reason"),
    [
        (_with_table(_row(0, 1, 0) * (MAX_HANDLES + 1), MAX_HANDLES + 1), "1025 handles"),
        (_with_table(b"", 0xFFFF), "65535 handles"),
        (_with_table(b"", 1), "runs past the end"),
        (_with_table(_row(0, 1, 0)[:-1], 1), "runs past the end"),
        (_with_table(_row(0, 1, 0), 2), "runs past the end"),
        (_with_table(_row(2, 1, 0), 1), "unknown side 2"),
        (_with_table(_row(255, 1, 0), 1), "unknown side 255"),
        (_with_table(_row(0, 1, 1), 1), "description"),
        (_with_table(_row(0, 1, 0xFFFFFFFF), 1), "description"),
        (_with_table(_row(0, 1, MAX_DESCRIPTION_BYTES + 1, bytes(MAX_DESCRIPTION_BYTES + 1)), 1), "description"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_that_does_not_fit_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        FrameDecoder().receive_data(data)


# -- errors --------------------------------------------------------------------------------


def test_a_protocol_error_says_which_side_is_to_blame() -> None:
    with pytest.raises(TypeError):
        ProtocolError("something went wrong")
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)


def test_the_kind_that_is_never_on_the_wire_is_the_only_one_left_out_here() -> None:
    assert [kind for kind in Kind if kind not in KINDS] == [Kind.DISCARDED]
    assert frames_module.Discarded not in {type(FrameDecoder().receive_data(raw(kind))[0]) for kind in KINDS}
