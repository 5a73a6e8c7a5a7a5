"""Streams through the host: items in order, credit from reader to source, and an end for a source that ignores it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from paddock.rpc.peer import Peer
from paddock_sdk.contract.boundary_errors import ModuleGoneError, RefusedError
from paddock_sdk.protocol import Flag, HandleEntry, Kind
from paddock_sdk.protocol.frames import encode_frame
from support.scripted_end import STREAM

from .conftest import Network, mirror
from .scripted_worker import ScriptedWorker


async def _reading(network: Network, **options: int) -> tuple[ScriptedWorker, ScriptedWorker, int, int]:
    """Return a reader and a source in the middle of a stream, and its number on either side."""
    reader, reading = await network.connect("reader", **options)  # type: ignore[arg-type]
    _, source = await network.connect("source")
    target = await network.lend(source, source.own(5, {"items": STREAM}), reader)
    id = reading.call_object(target, flags=Flag.STREAM)
    request = await source.request_from_host()
    assert request.flags == Flag.STREAM
    return reading, source, id, request.id


def _allow(worker: ScriptedWorker, id: int, items: int) -> None:
    worker.write(worker.connection.send_credit(id, items))


def _item(worker: ScriptedWorker, id: int, value: object) -> None:
    body, handles = worker.body(value)
    worker.write(worker.connection.send_item(id, body, handles))


async def test_items_and_credit_pass_through_and_the_end_ends_it(network: Network) -> None:
    reading, source, id, sourced = await _reading(network)
    _allow(reading, id, 3)
    credit = await source.take(Kind.CREDIT)
    assert (credit.id, credit.target) == (sourced, 3)
    for number in range(3):
        _item(source, sourced, number)
    items = [await reading.take(Kind.ITEM) for _ in range(3)]
    assert [(item.id, reading.value(item)) for item in items] == [(id, 0), (id, 1), (id, 2)]
    _allow(reading, id, 2)
    assert (await source.take(Kind.CREDIT)).target == 2
    source.respond(sourced)
    assert await reading.answer(id) is None


async def test_a_source_that_sends_without_credit_is_ended_and_its_reader_told(network: Network) -> None:
    reading, source, id, sourced = await _reading(network)
    _allow(reading, id, 1)
    await source.take(Kind.CREDIT)
    source.write(*(encode_frame(Kind.ITEM, id=sourced, body=b"\x01") for _ in range(2)))
    await source.cut_off()
    assert [name for name, _ in network.failure_policy.violations] == ["source"]
    with pytest.raises(ConnectionError):
        await reading.answer(id)


async def test_a_reader_that_allows_too_much_is_ended(network: Network) -> None:
    reading, _, id, _ = await _reading(network)
    reading.write(encode_frame(Kind.CREDIT, id=id, target=(1 << 16) + 1))
    await reading.cut_off()
    assert [name for name, _ in network.failure_policy.violations] == ["reader"]


async def test_a_reader_that_leaves_early_has_the_source_cancelled(network: Network) -> None:
    reading, source, id, sourced = await _reading(network)
    _allow(reading, id, 8)
    await source.take(Kind.CREDIT)
    _item(source, sourced, "first")
    await reading.take(Kind.ITEM)
    reading.write(reading.connection.send_cancel(id))
    assert (await source.take(Kind.CANCEL)).id == sourced
    _item(source, sourced, "crossed the cancellation")
    source.respond(sourced)
    await source.round_trip()
    await reading.round_trip()
    assert not reading.heard(Kind.ITEM)
    assert network.failure_policy.violations == []


async def test_an_item_that_outgrows_a_frame_on_its_way_ends_the_stream_for_both(network: Network) -> None:
    reading, source, id, sourced = await _reading(network, send_limit=2000)
    held = await network.handle_of(source, source.own(9, text="x" * 1500))
    _allow(reading, id, 8)
    await source.take(Kind.CREDIT)
    _item(source, sourced, [source.again(9), bytes(1000)])
    with pytest.raises(Exception, match="over the limit"):
        await reading.answer(id)
    assert (await source.take(Kind.CANCEL)).id == sourced
    assert held.object_id == 9


async def test_a_stream_is_not_begun_again_by_a_source_that_came_back(network: Network) -> None:
    reading, source, id, _ = await _reading(network)
    network.failure_policy.makes_again()
    source.close()
    with pytest.raises(ModuleGoneError, match="in the middle of a stream"):
        await reading.answer(id)


class _Source:
    """An object of the application's."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = asyncio.Event()

    async def count(self, fail_at: int | None = None) -> AsyncIterator[int]:
        try:
            while self.made != fail_at:
                self.made += 1
                yield self.made
            raise LookupError("that was all")
        finally:
            self.closed.set()

    def counted(self) -> AsyncIterator[int]:
        return self.count()


async def _held(network: Network, value: object) -> tuple[Peer, ScriptedWorker, HandleEntry, dict[str, int]]:
    """Hand an object of the application's to a worker."""
    peer, worker = await network.connect("reader")
    mirror(peer, network.marshaller.encode(value, share=True), may_call=True)
    entry = (await worker.take(Kind.MIRROR)).handles[0]
    members = worker.description(entry).members
    return peer, worker, entry, {member.name: number for number, member in enumerate(members)}


async def test_an_application_generator_runs_only_as_far_as_its_reader(network: Network) -> None:
    source = _Source()
    _, worker, entry, numbers = await _held(network, source)
    id = worker.call_object(entry.id, numbers["count"], flags=Flag.STREAM)
    for allowed in (2, 3):
        _allow(worker, id, allowed)
        items = [worker.value(await worker.take(Kind.ITEM)) for _ in range(allowed)]
        await worker.round_trip()
        assert source.made <= items[-1] + 1
        assert not worker.heard(Kind.ITEM)
    worker.write(worker.connection.send_cancel(id))
    await source.closed.wait()
    assert network.failure_policy.violations == []


async def test_an_application_generators_error_ends_its_readers_call(network: Network) -> None:
    source = _Source()
    _, worker, entry, numbers = await _held(network, source)
    id = worker.call_object(entry.id, numbers["count"], 2, flags=Flag.STREAM)
    _allow(worker, id, 5)
    assert [worker.value(await worker.take(Kind.ITEM)) for _ in range(2)] == [1, 2]
    with pytest.raises(LookupError, match="that was all"):
        await worker.answer(id)
    assert source.closed.is_set()


async def test_an_applications_iterable_is_read_as_a_stream(network: Network) -> None:
    source = _Source()
    _, worker, entry, numbers = await _held(network, source)
    answer = worker.call_object(entry.id, numbers["counted"])
    returned = (await worker.take(Kind.RESPONSE)).handles[0]
    assert [member.name for member in worker.description(returned).members] == ["__anext__", "aclose"]
    id = worker.call_object(returned.id, 0, flags=Flag.STREAM)
    assert id != answer
    _allow(worker, id, 1)
    assert worker.value(await worker.take(Kind.ITEM)) == 1
    worker.write(worker.connection.send_cancel(id))
    await source.closed.wait()


async def _readable(network: Network) -> tuple[ScriptedWorker, Any]:
    """Return a source, and the host's stand-in for what it streams."""
    _, source = await network.connect("source")
    handle = await network.handle_of(source, source.own(5, {"items": STREAM}))
    return source, network.marshaller.object_of(handle)


async def test_the_host_reads_a_stream_no_faster_than_it_takes_the_items(network: Network) -> None:
    source, stand_in = await _readable(network)
    stream = stand_in.items("argument")
    first = asyncio.ensure_future(anext(stream))
    request = await source.request_from_host()
    window = (await source.take(Kind.CREDIT)).target
    for number in range(window):
        _item(source, request.id, number)
    assert await first == 0
    for number in range(1, window // 2):
        assert await anext(stream) == number
    assert (await source.take(Kind.CREDIT)).target == window // 2
    for number in range(window // 2, window):
        assert await anext(stream) == number
    source.respond(request.id)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    await source.round_trip()
    assert not source.heard(Kind.CANCEL)


async def test_objects_in_items_that_the_host_never_reads_are_let_go(network: Network) -> None:
    source, stand_in = await _readable(network)
    stream = stand_in.items()
    first = asyncio.ensure_future(anext(stream))
    request = await source.request_from_host()
    await source.take(Kind.CREDIT)
    for number in range(10, 20):
        _item(source, request.id, source.own(number))
    await first  # which holds what it read
    await source.round_trip()
    assert not source.heard(Kind.RELEASE)
    await stream.aclose()
    assert (await source.take(Kind.CANCEL)).id == request.id
    released = [await source.take(Kind.RELEASE) for _ in range(9)]
    assert {(release.id, release.target) for release in released} == {(number, 1) for number in range(11, 20)}


@pytest.mark.parametrize("end", ["failure", "death"])
async def test_a_stream_the_host_reads_ends_as_its_source_does(end: str, network: Network) -> None:
    source, stand_in = await _readable(network)
    stream = stand_in.items()
    first = asyncio.ensure_future(anext(stream))
    request = await source.request_from_host()
    if end == "failure":
        source.fail(request.id, RefusedError("not today"))
    else:
        source.close()
    with pytest.raises(RefusedError if end == "failure" else ModuleGoneError):
        await first


@pytest.mark.parametrize("end", ["is over", "is left", "is cancelled", "fails"])
async def test_a_thread_of_the_application_reads_a_stream(end: str, network: Network) -> None:
    source, stand_in = await _readable(network)
    arrived: list[str] = []
    has_arrived = threading.Event()

    async def read() -> None:
        async with asyncio.timeout(60), contextlib.aclosing(stand_in.items("argument")) as items:
            async for item in items:
                arrived.append(item)
                has_arrived.set()
                if end == "is left":
                    return

    async def read_a_while() -> None:
        reading = asyncio.ensure_future(read())
        await asyncio.to_thread(has_arrived.wait, 60)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading

    work = read_a_while if end == "is cancelled" else read
    working = asyncio.ensure_future(asyncio.to_thread(asyncio.run, work()))
    request = await source.request_from_host()
    assert source.value(request)[0] == ["argument"]
    await source.take(Kind.CREDIT)
    _item(source, request.id, "first")
    if end in ("is left", "is cancelled"):
        assert (await source.take(Kind.CANCEL)).id == request.id
    elif end == "fails":
        source.fail(request.id, RefusedError("not today"))
        with pytest.raises(RefusedError, match="not today"):
            await working
    else:
        source.respond(request.id)
    await asyncio.wait([working])
    assert arrived == ["first"]


async def test_a_stream_is_left_before_the_sessions_loop_gets_to_it(network: Network) -> None:
    _, stand_in = await _readable(network)
    goes_on = threading.Event()

    async def leave() -> None:
        network.router.loop.call_soon_threadsafe(goes_on.wait, 60)
        reading = asyncio.ensure_future(anext(stand_in.items()))
        for step in (lambda: None, reading.cancel, goes_on.set):
            step()
            for _ in range(5):
                await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await reading

    await asyncio.to_thread(asyncio.run, leave())
