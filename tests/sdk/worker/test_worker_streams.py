"""Streams at the worker's end: as a reader that allows what it has room for, and as a source that keeps to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from paddock_sdk.contract.boundary_errors import ModuleGoneError
from paddock_sdk.protocol import Flag, Kind
from paddock_sdk.protocol.methods import HostMethod, MirrorSection
from support.scripted_end import STREAM

from .conftest import Rig, until
from .scripted_host import ScriptedHost

_METHOD = 77


async def _stand_in(rig: Rig) -> Any:
    await rig.play(lambda host: host.mirror(MirrorSection.CAPABILITY, host.own(9, {"items": STREAM}), head="source"))
    await until(lambda: rig.coordinator.get_capability("source"))
    return rig.coordinator.get_capability("source")


def _items(host: ScriptedHost, id: int, *values: object) -> None:
    for value in values:
        body, handles = host.body(value)
        host.write(host.connection.send_item(id, body, handles))


# -- reading -----------------------------------------------------------------------------------


async def test_items_are_read_in_order_and_allowed_as_they_are_taken(rig: Rig) -> None:
    def script(host: ScriptedHost) -> list[int]:
        request = host.request_from_worker()
        assert (request.target, request.flags, host.value(request)) == (9, Flag.STREAM, [["from here"], {}])
        allowed = [host.take(Kind.CREDIT).target]
        sent = 0
        while sent < 100:
            while not host.connection.credit(request.id):
                allowed.append(host.take(Kind.CREDIT).target)
            _items(host, request.id, sent)
            sent += 1
        host.respond(request.id)
        return allowed

    source = await _stand_in(rig)
    async with rig.playing(script) as played:
        assert [item async for item in source.items("from here")] == list(range(100))
    window, *more = played.result()
    assert all(items == window // 2 for items in more)


async def test_a_source_gets_no_more_leave_than_its_reader_takes(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        window = host.take(Kind.CREDIT).target
        _items(host, request.id, *range(window))
        assert host.is_silent(), "nothing was taken yet"
        resume.set()
        assert host.take(Kind.CREDIT).target == window // 2
        host.respond(request.id)

    resume = threading.Event()
    source = await _stand_in(rig)
    async with rig.playing(script):
        stream = source.items()
        assert await anext(stream) == 0
        await until(resume.is_set)
        assert len([item async for item in stream]) == 31


async def test_leaving_a_stream_early_cancels_it(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        host.take(Kind.CREDIT)
        _items(host, request.id, "first", "second")
        assert host.take(Kind.CANCEL).id == request.id
        _items(host, request.id, "crossed")
        host.respond(request.id)
        assert host.is_silent()

    source = await _stand_in(rig)
    async with rig.playing(script):
        stream = source.items()
        assert await anext(stream) == "first"
        await stream.aclose()


async def test_a_stream_raises_what_its_source_raises_after_the_items(rig: Rig) -> None:
    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        host.take(Kind.CREDIT)
        _items(host, request.id, 1, 2)
        host.fail(request.id, OSError("ran dry"))

    source = await _stand_in(rig)
    seen = []
    async with rig.playing(script):
        with pytest.raises(OSError, match="ran dry"):
            async for item in source.items():
                seen.append(item)  # noqa: PERF401 - what was read before the failure is the subject
    assert seen == [1, 2]


async def test_a_stream_can_be_read_on_another_threads_loop(rig: Rig) -> None:
    source = await _stand_in(rig)

    async def read() -> list[int]:
        return [item async for item in source.items()]

    def script(host: ScriptedHost) -> list[int]:
        request = host.request_from_worker()
        sent, granted = 0, []
        while sent < 100:
            credit = host.take(Kind.CREDIT)
            granted.append(credit.target)
            for _ in range(credit.target):
                if sent < 100:
                    host.write(host.connection.send_item(request.id, host.body(sent)[0]))
                    sent += 1
        host.respond(request.id)
        return granted

    async with rig.playing(script) as played:
        assert await asyncio.to_thread(asyncio.run, read()) == list(range(100))
    assert played.result()[:3] == [32, 16, 16]


async def test_a_stream_left_early_on_another_loop_is_cancelled(rig: Rig) -> None:
    source = await _stand_in(rig)

    async def read() -> int:
        items = source.items()
        first: int = await anext(items)
        await items.aclose()
        return first

    def script(host: ScriptedHost) -> None:
        request = host.request_from_worker()
        host.take(Kind.CREDIT)
        host.write(host.connection.send_item(request.id, host.body("first")[0]))
        assert host.take(Kind.CANCEL).id == request.id
        host.fail(request.id, asyncio.CancelledError())
        assert host.is_silent()

    async with rig.playing(script):
        assert await asyncio.to_thread(asyncio.run, read()) == "first"


async def test_a_stream_read_on_another_threads_loop_raises_what_happens_to_it(rig: Rig) -> None:
    source = await _stand_in(rig)

    async def read(*args: Any) -> None:
        async for _ in source.items(*args):
            pass

    async with rig.playing(lambda host: host.fail(host.request_from_worker().id, OSError("ran dry"))):
        with pytest.raises(OSError, match="ran dry"):
            await asyncio.to_thread(asyncio.run, read())
    with pytest.raises(Exception, match="cannot be sent"):
        await asyncio.to_thread(asyncio.run, read(10**2000))
    async with rig.playing(lambda host: (host.request_from_worker(), host.close())):
        with pytest.raises(ModuleGoneError):
            await asyncio.to_thread(asyncio.run, read())


# -- being the source --------------------------------------------------------------------------


class _Source:
    def __init__(self) -> None:
        self.made: list[int] = []
        self.is_closed = asyncio.Event()

    async def items(self, limit: int) -> AsyncIterator[int]:
        try:
            for number in range(limit):
                self.made.append(number)
                yield number
        finally:
            self.is_closed.set()

    async def objects(self) -> AsyncIterator[object]:
        yield self
        yield lambda: "made here"


async def _source(rig: Rig) -> tuple[_Source, int, dict[str, int]]:
    source = _Source()
    entry = await rig.export(source)
    names = [member.name for member in rig.host.description(entry).members]
    return source, entry.id, {name: number for number, name in enumerate(names)}


async def test_a_source_makes_no_more_items_than_it_may_send(rig: Rig) -> None:
    source, id, numbers = await _source(rig)

    def script(host: ScriptedHost) -> list[int]:
        call = host.request(id, numbers["items"], 10, flags=Flag.STREAM)
        assert host.is_silent(), "it has no leave yet"
        host.write(host.connection.send_credit(call, 3))
        first = [host.value(host.take(Kind.ITEM)) for _ in range(3)]
        assert host.is_silent()
        host.write(host.connection.send_credit(call, 100))
        rest = [host.value(host.take(Kind.ITEM)) for _ in range(7)]
        assert host.answer(call) is None
        return first + rest

    assert await rig.play(script) == list(range(10))
    assert source.is_closed.is_set()


async def test_a_source_that_is_cancelled_is_closed_and_its_call_ends_once(rig: Rig) -> None:
    source, id, numbers = await _source(rig)

    def script(host: ScriptedHost) -> None:
        call = host.request(id, numbers["items"], 10**9, flags=Flag.STREAM)
        host.write(host.connection.send_credit(call, 2))
        for _ in range(2):
            host.take(Kind.ITEM)
        host.write(host.connection.send_cancel(call))
        while host.connection.outgoing:
            assert host.is_silent()

    await rig.play(script)
    assert source.is_closed.is_set()
    assert len(source.made) == 3, "the third was made and waited for leave to be sent"


async def test_a_source_without_its_arguments_ends_its_call_with_that(rig: Rig) -> None:
    _, id, numbers = await _source(rig)

    def script(host: ScriptedHost) -> None:
        with pytest.raises(Exception, match="limit"):
            host.answer(host.request(id, numbers["items"], flags=Flag.STREAM))

    await rig.play(script)


async def test_items_may_be_objects(rig: Rig) -> None:
    _, id, numbers = await _source(rig)

    def script(host: ScriptedHost) -> None:
        call = host.request(id, numbers["objects"], flags=Flag.STREAM)
        host.write(host.connection.send_credit(call, 10))
        itself = host.value(host.take(Kind.ITEM))
        assert itself == host.again(id).entry
        function = host.value(host.take(Kind.ITEM))
        host.answer(call)
        assert host.in_place(function.id) == "made here"

    await rig.play(script)


async def test_state_that_a_stream_writes_precedes_its_next_item(rig: Rig) -> None:
    class Writer:
        async def items(self) -> AsyncIterator[int]:
            for number in range(2):
                rig.coordinator.session_state["number"] = number
                yield number

    entry = await rig.export(Writer())

    def script(host: ScriptedHost) -> list[Any]:
        call = host.request(entry.id, 0, flags=Flag.STREAM)
        host.write(host.connection.send_credit(call, 10))
        frames = [host.next() for _ in range(4)]
        host.answer(call)
        return [(frame.kind, frame.method, host.value(frame)) for frame in frames]

    patch = (Kind.NOTIFY, HostMethod.PATCH_STATE)
    assert await rig.play(script) == [
        (*patch, [[["number"], [0]]]),
        (Kind.ITEM, 0, 0),
        (*patch, [[["number"], [1]]]),
        (Kind.ITEM, 0, 1),
    ]


async def test_a_source_waiting_for_leave_ends_with_the_host(rig: Rig) -> None:
    source, id, numbers = await _source(rig)

    def script(host: ScriptedHost) -> None:
        host.request(id, numbers["items"], 10, flags=Flag.STREAM)
        assert host.is_silent()
        host.close()

    await rig.play(script)
    async with asyncio.timeout(60):
        await source.is_closed.wait()
    with pytest.raises(ModuleGoneError):
        await rig.driver.call(0, _METHOD, None)
