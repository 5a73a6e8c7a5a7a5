"""The host's end of one socket: each misdeed is reported once, and a worker that does not read is not waited for."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from paddock.rpc import channel
from paddock.rpc.peer import Encoded, Peer
from paddock_sdk.protocol import Kind, LocalProtocolError, RemoteProtocolError
from paddock_sdk.protocol.frames import FrameParts, encode_frame
from support.scripted_end import ASYNC

from .conftest import Network
from .scripted_worker import until


@pytest.mark.parametrize(
    "misdeed",
    [
        pytest.param(b"\xff" * 64, id="garbage"),
        pytest.param(struct.pack(">I", 3) + b"abc", id="a frame without a header"),
        pytest.param(struct.pack(">I", 1 << 30), id="a length over the cap"),
        pytest.param(encode_frame(Kind.HELLO), id="a second greeting"),
        pytest.param(encode_frame(Kind.MIRROR, method=2, body=b"\xc0"), id="a mirror change"),
        pytest.param(encode_frame(Kind.RESPONSE, id=99), id="an answer to nothing"),
        pytest.param(encode_frame(Kind.ITEM, id=99), id="an item of nothing"),
        pytest.param(encode_frame(Kind.REQUEST, id=0), id="a request without a number"),
        pytest.param(encode_frame(Kind.REQUEST, id=5, target=31337), id="a call of what it was never handed"),
    ],
)
async def test_a_misdeed_is_reported_once_and_the_worker_heard_no_more(misdeed: bytes, network: Network) -> None:
    peer, worker = await network.connect("worker")
    held = await network.handle_of(worker, worker.own(5, {"work": ASYNC}))
    waiting = asyncio.ensure_future(network.host_calls.call_now(held, 0, network.marshaller.encode([[], {}])))
    await worker.request_from_host()
    after = encode_frame(Kind.NOTIFY, method=7, body=b"\xc0")
    worker.write(misdeed, misdeed, after)
    await worker.cut_off()
    with pytest.raises(RuntimeError, match="ended before it answered"):
        await waiting
    assert [name for name, _ in network.failure_policy.violations] == ["worker"]
    assert network.failure_policy.lost == ["worker"]
    assert network.service.notices == []
    assert not peer.is_open


async def test_a_stream_cut_off_inside_a_frame_is_an_end_like_any_other(network: Network) -> None:
    _, worker = await network.connect("worker")
    worker.write(encode_frame(Kind.NOTIFY, method=7, body=b"\xc0")[:-1])
    worker.close()
    await until(lambda: network.failure_policy.lost)
    assert network.failure_policy.violations == []  # a worker may have been killed there


async def test_a_worker_that_does_not_read_is_given_up_with_its_backlog(network: Network) -> None:
    peer, worker = await network.connect("worker")
    worker.stop_reading()
    body = bytes(8 * 1024 * 1024)
    async with asyncio.timeout(60):
        while peer.is_open:
            peer.channel.mirror(99, body)
            await asyncio.sleep(0)
    assert network.failure_policy.violations == [("worker", "it does not read what it is sent")]


async def test_a_busy_worker_is_read_in_turn_and_in_order(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_STRETCH", 0.0)
    _, loud = await network.connect("loud")
    _, quiet = await network.connect("quiet")
    for number in range(500):
        loud.notify(7, number)
    quiet.notify(7, "once")
    await loud.round_trip()
    heard = [(name, network.marshaller.decode(message)) for name, _, message in network.service.notices]
    assert [value for name, value in heard if name == "loud"] == list(range(500))
    assert heard.index(("quiet", "once")) < 100


async def test_a_misdeed_in_the_midst_of_much_is_the_last_that_is_heard(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_STRETCH", 0.0)
    _, worker = await network.connect("worker")
    notice = encode_frame(Kind.NOTIFY, method=7, body=b"\xc0")
    worker.write(b"".join([notice] * 20 + [encode_frame(Kind.REQUEST, id=5, target=31337)] + [notice] * 20))
    await worker.cut_off()
    await until(lambda: network.failure_policy.lost)
    assert len(network.service.notices) == 20
    assert [name for name, _ in network.failure_policy.violations] == ["worker"]


@pytest.mark.parametrize("stretch", [0.0, 60.0])
async def test_a_worker_that_is_given_up_in_the_midst_of_much_is_heard_no_more(
    stretch: float, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "_STRETCH", stretch)
    peer, worker = await network.connect("worker")
    notice = network.service.notice

    def give_up(peer: Peer, method: int, message: Encoded) -> None:
        notice(peer, method, message)
        network.router.end_for(peer, RemoteProtocolError("enough"))

    monkeypatch.setattr(network.service, "notice", give_up)
    notices = [encode_frame(Kind.NOTIFY, method=7, body=b"\xc0")] * 20
    worker.write(b"".join([*notices, encode_frame(Kind.REQUEST, id=5, target=31337)]))
    await worker.cut_off()
    await until(lambda: network.failure_policy.lost)
    assert len(network.service.notices) == 1
    assert network.failure_policy.violations == [("worker", "enough")]
    assert not peer.is_open


async def test_objects_of_an_abandoned_answer_are_released(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "_STRETCH", 0.0)
    _, worker = await network.connect("worker")
    held = await network.handle_of(worker, worker.own(5, {"work": ASYNC}))
    waiting = asyncio.ensure_future(network.host_calls.call_now(held, 0, network.marshaller.encode([[], {}])))
    request = await worker.request_from_host()
    body, entries = worker.body(worker.own(9, {"work": ASYNC}))
    notices = [encode_frame(Kind.NOTIFY, method=7, body=b"\xc0")] * 20
    worker.write(b"".join([*notices, _joined(worker.connection.send_response(request.id, body, entries))]))
    await until(lambda: network.service.notices)
    waiting.cancel()
    released = await worker.take(Kind.RELEASE)
    assert (released.id, released.target) == (9, 1)
    assert len(network.service.notices) == 20


async def test_batched_updates_precede_the_next_frame_once_a_key(network: Network) -> None:
    peer, worker = await network.connect("worker")
    for key, body in (("first", b"\x01"), ("second", b"\x02"), ("first", b"\x03")):
        peer.channel.mirror_along(key, 99, body)
    peer.channel.release(7, 1)
    await worker.take(Kind.RELEASE)
    assert [bytes(frame.body) for frame in worker.heard(Kind.MIRROR)] == [b"\x02", b"\x03"]


async def test_what_goes_along_does_not_wait_for_ever(network: Network) -> None:
    peer, worker = await network.connect("worker")
    peer.channel.mirror_along("key", 99, b"\x01")
    assert bytes((await worker.take(Kind.MIRROR)).body) == b"\x01"
    peer.channel.mirror_along("key", 99, bytes(1 << 17))
    assert len((await worker.take(Kind.MIRROR)).body) == 1 << 17


async def test_what_waits_for_the_next_frame_is_bounded(network: Network) -> None:
    peer, worker = await network.connect("worker")
    for number in range(200):
        peer.channel.mirror_along(number, 99, bytes(60_000), waits=True)
        peer.channel.mirror_along("one key", 99, bytes(100), waits=True)
    await until(lambda: len(worker.heard(Kind.MIRROR)) > 190)
    assert len(worker.heard(Kind.MIRROR)) < 400, "the rest waits, and of one key the last change only"
    peer.channel.send_due()
    await until(lambda: sum(len(frame.body) == 60_000 for frame in worker.heard(Kind.MIRROR)) == 200)


async def test_what_is_said_to_a_closed_channel_is_dropped_and_a_request_refused(network: Network) -> None:
    peer, worker = await network.connect("worker")
    handle = await network.handle_of(worker, worker.own(5, {"work": ASYNC}))
    worker.close()
    await until(lambda: network.failure_policy.lost)
    channel = peer.channel
    channel.respond(1, b"\xc0")
    channel.fail(1, b"\xc0")
    channel.mirror(1, b"\xc0")
    channel.mirror_along("key", 1, b"\xc0")
    channel.release(1, 1)
    channel.goodbye()
    channel.close()
    with pytest.raises(LocalProtocolError):
        await network.host_calls.ask(peer, 1, network.marshaller.encode(None))
    assert channel.unsent_bytes == 0
    assert handle.owner is peer


async def test_a_goodbye_is_said_once(network: Network) -> None:
    peer, worker = await network.connect("worker")
    peer.channel.goodbye()
    peer.channel.goodbye()
    assert (await worker.take(Kind.GOODBYE)).kind == Kind.GOODBYE
    await worker.round_trip()
    assert not worker.heard(Kind.GOODBYE)


def _joined(frame: bytes | FrameParts) -> bytes:
    return frame if isinstance(frame, bytes) else b"".join(frame)


async def test_what_a_burst_of_frames_leads_to_leaves_together(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, requester = await network.connect("asker")
    written: list[bytes] = []
    made = channel.Channel.connection_made

    def note_writes(self: channel.Channel, transport: Any) -> None:
        write = transport.write
        monkeypatch.setattr(transport, "write", lambda data: (written.append(bytes(data)), write(data))[1])
        made(self, transport)

    with monkeypatch.context() as patch:
        patch.setattr(channel.Channel, "connection_made", note_writes)
        peer, worker = await network.connect("worker")
    target = await network.lend(worker, worker.own(5, {"work": ASYNC}), asking)
    written.clear()
    frames = [requester.request_frame(target, 0, [[number], {}])[1] for number in range(20)]
    requester.write(*frames)
    for number in range(20):
        request = await worker.request_from_host()
        assert worker.value(request) == [[number], {}]
    assert 1 < len(written) < 20, "several at a time, and none waits for all of them"
    assert peer.channel.unsent_bytes == 0


async def test_a_large_frame_in_a_burst_comes_after_the_small_ones_before_it(network: Network) -> None:
    asking, requester = await network.connect("asker")
    _, worker = await network.connect("worker")
    target = await network.lend(worker, worker.own(5, {"work": ASYNC}), asking)
    sizes = [1, 2, 5000, 3, 100_000, 4]
    requester.write(*(requester.request_frame(target, 0, [["x" * size], {}])[1] for size in sizes))
    arrived = [len(worker.value(await worker.request_from_host())[0][0]) for _ in sizes]
    assert arrived == sizes


async def test_what_was_written_before_a_channel_is_closed_in_a_burst_arrives(network: Network) -> None:
    peer, worker = await network.connect("worker")
    batch = network.router.batch
    batch.begin()
    peer.channel.goodbye()
    assert not worker.heard(Kind.GOODBYE)
    peer.channel.close()
    batch.end()
    assert (await worker.take(Kind.GOODBYE)).kind == Kind.GOODBYE
    await worker.cut_off()
