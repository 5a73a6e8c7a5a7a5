"""The frames between a host and a worker that runs commands: found however they are cut, refused when they are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock_sdk.worker.command_frames import TO_HOST, TO_WORKER, CommandFrameDecoder, FrameError, FrameKind, frame

_FRAMES = st.lists(
    st.sampled_from([FrameKind.STDOUT, FrameKind.STDERR]).flatmap(
        lambda kind: st.tuples(st.just(kind), st.binary(max_size=50))
    ),
    max_size=8,
)


@given(sent=_FRAMES, cuts=st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_frames_are_found_however_the_stream_is_cut(sent: list[tuple[FrameKind, bytes]], cuts: list[int]) -> None:
    stream = b"".join(frame(kind, payload) for kind, payload in sent)
    decoder = CommandFrameDecoder(TO_HOST)
    found = []
    at = turn = 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        found += [(kind, bytes(payload)) for kind, payload in decoder.feed(stream[at : at + size])]
        at, turn = at + size, turn + 1
    assert found == sent


@given(data=st.binary(max_size=200))
def test_anything_at_all_is_frames_or_refused(data: bytes) -> None:
    try:
        for kind, payload in CommandFrameDecoder(TO_HOST).feed(data):
            assert len(payload) <= TO_HOST[kind]
    except FrameError:
        pass


@pytest.mark.parametrize("accepted", [TO_HOST, TO_WORKER])
def test_each_kind_is_bounded_and_for_one_side_only(accepted: dict[int, int]) -> None:
    for kind in FrameKind:
        most = accepted.get(kind)
        if most is None:
            with pytest.raises(FrameError):
                CommandFrameDecoder(accepted).feed(frame(kind))
        else:
            assert len(CommandFrameDecoder(accepted).feed(frame(kind, bytes(most)))) == 1
            with pytest.raises(FrameError):  # as soon as its head is there
                CommandFrameDecoder(accepted).feed(frame(kind, bytes(most + 1))[:5])
