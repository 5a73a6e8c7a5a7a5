"""Cutting a stream into frames: the same frames however the bytes arrive, in memory that is bounded."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sdk.protocol import Frame, FrameDecoder, HandleEntry, Kind, RemoteProtocolError
from support.rows import each_row

from .wire_inputs import KINDS, costly, frame_fields, pieces, plain, raw, thorough

RESIDENT = 64 * 1024
SIZES_AROUND_THE_RESIDENT_BUFFER = [0, 1, RESIDENT - 27, RESIDENT - 26, RESIDENT - 25, RESIDENT, RESIDENT + 1, 200_000]


def _feed(decoder: FrameDecoder, chunks: Any) -> list[Frame]:
    frames: list[Frame] = []
    for chunk in chunks:
        frames += decoder.receive_data(chunk)
    return [plain(frame) for frame in frames]


@each_row("kind", KINDS)
@each_row("size", [0, 5, RESIDENT + 10])
def test_every_kind_arrives_one_byte_at_a_time(kind: Kind, size: int) -> None:
    data = raw(kind, id=3, handles=[HandleEntry(0, 9, b"what it is")], body=b"x" * size)
    decoder = FrameDecoder()
    early = _feed(decoder, (data[at : at + 1] for at in range(len(data) - 1)))
    assert early == []
    assert not decoder.is_empty
    assert _feed(decoder, [data[-1:]]) == _feed(FrameDecoder(), [data])
    assert decoder.is_empty


@thorough
@given(many=st.lists(frame_fields(), min_size=1, max_size=6), cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_frames_are_the_same_wherever_the_stream_is_cut(many: list[dict[str, Any]], cuts: list[int]) -> None:
    data = b"".join(raw(**fields) for fields in many)
    decoder = FrameDecoder()
    assert [frame._asdict() for frame in _feed(decoder, pieces(data, cuts))] == many
    assert decoder.is_empty


@costly
@given(
    sizes=st.lists(st.sampled_from([*SIZES_AROUND_THE_RESIDENT_BUFFER, 3 * 1024 * 1024]), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 12 * 1024 * 1024), max_size=10),
)
def test_large_frames_are_the_same_wherever_the_stream_is_cut(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    data = b"".join(raw(Kind.ITEM, id=1, body=body) for body in bodies)
    decoder = FrameDecoder()
    assert [frame.body for frame in _feed(decoder, pieces(data, cuts))] == bodies
    assert decoder.is_empty


@each_row("size", SIZES_AROUND_THE_RESIDENT_BUFFER)
def test_small_frames_around_a_large_one_keep_their_order(size: int) -> None:
    data = b"".join(
        [raw(Kind.NOTIFY, method=1), raw(Kind.NOTIFY, method=2, body=bytes(size)), raw(Kind.NOTIFY, method=3)]
    )
    frames = _feed(FrameDecoder(), [data])
    assert [(frame.method, len(frame.body)) for frame in frames] == [(1, 0), (2, size), (3, 0)]


def test_bytes_may_be_received_straight_into_the_decoders_memory() -> None:
    chance = random.Random(5)
    data = b"".join(raw(Kind.NOTIFY, method=number, body=bytes(number * 997)) for number in range(150))
    decoder, methods, at = FrameDecoder(), [], 0
    while at < len(data):
        room = decoder.get_buffer()
        assert len(room) > 0
        step = min(chance.randint(1, len(room)), len(data) - at)
        room[:step] = data[at : at + step]
        methods += [frame.method for frame in decoder.buffer_updated(step)]
        at += step
    assert methods == list(range(150))
    assert decoder.is_empty


@each_row(
    ("length", "reason"),
    [
        (0, "shorter than its header"),
        (21, "shorter than its header"),
        (997, "over the limit"),
        (0xFFFFFFFF, "over the limit"),
    ],
)
def test_a_length_no_frame_may_have_is_refused_as_soon_as_it_is_read(length: int, reason: str) -> None:
    decoder = FrameDecoder(max_frame_bytes=1000)
    prefix = length.to_bytes(4, "big")
    assert decoder.receive_data(prefix[:3]) == []
    with pytest.raises(RemoteProtocolError, match=reason):
        decoder.receive_data(prefix[3:])
    assert len(decoder.get_buffer()) <= RESIDENT


@each_row("limit", [1000, 100_000, 1 << 20])
def test_a_frame_of_exactly_the_limit_arrives(limit: int) -> None:
    data = raw(Kind.NOTIFY, body=bytes(limit - 26), max_frame_bytes=limit)
    assert len(data) == limit
    (frame,) = FrameDecoder(limit).receive_data(data)
    assert len(frame.body) == limit - 26


@thorough
@given(soup=st.binary(max_size=400), cuts=st.lists(st.integers(0, 400), max_size=5))
def test_byte_soup_is_frames_or_refused_and_never_takes_more_than_the_cap(soup: bytes, cuts: list[int]) -> None:
    decoder = FrameDecoder(max_frame_bytes=RESIDENT + 500)
    try:
        for piece in pieces(soup, cuts):
            decoder.receive_data(piece)
            assert 0 < len(decoder.get_buffer()) <= RESIDENT + 500
    except RemoteProtocolError:
        pass
