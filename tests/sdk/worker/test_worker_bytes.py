"""Bytes in both directions at once: nothing is torn apart, mixed up or stuck, however full the socket is."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import pytest

from paddock_sdk.protocol import Flag, Kind
from paddock_sdk.protocol.methods import HostMethod
from paddock_sdk.worker.attempts.noticing import AttemptRecorder
from paddock_sdk.worker.main import Worker

from .conftest import Rig, until
from .scripted_host import ScriptedHost

_METHOD = 77
_LARGE = 3 * 1024 * 1024  # far more than both ends' socket buffers hold together


@pytest.fixture
def narrow(rig: Rig) -> Rig:
    """A worker whose connection holds next to nothing in between."""
    for sock in rig.sockets:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 4096)
    return rig


class _Counter:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def count(self, data: bytes) -> int:
        self.seen.append(len(data))
        return len(data)


async def test_two_large_calls_that_meet_do_not_wait_for_each_other(narrow: Rig) -> None:
    """Both ends begin to send before either reads: a worker that only wrote would wait forever."""
    counter = _Counter()
    entry = await narrow.export(counter)

    def script(host: ScriptedHost) -> None:
        host.begin_to_hear()
        counted = host.request(entry.id, 0, bytes(_LARGE), flags=Flag.IN_PLACE)
        request = host.request_from_worker()
        assert len(host.value(request)) == _LARGE
        assert host.answer(counted) == _LARGE
        host.respond(request.id, bytes(_LARGE))

    async with narrow.playing(script):
        assert len(narrow.driver.call_sync(0, _METHOD, bytes(_LARGE))) == _LARGE
    assert counter.seen == [_LARGE]


async def test_many_frames_of_all_sizes_arrive_whole_and_in_order(narrow: Rig) -> None:
    sizes = [1, 70_000, 3, 200_000, 65_536, 5, _LARGE, 2, 100_000, 1] * 2

    def script(host: ScriptedHost) -> list[Any]:
        heard = []
        while len(heard) < 2 * len(sizes):
            frame = host.take(Kind.NOTIFY, Kind.REQUEST)
            number, data = host.value(frame)
            assert data == bytes([number]) * len(data)
            heard.append((number, len(data)))
            if frame.kind == Kind.REQUEST:
                host.respond(frame.id, number)
        return heard

    async with narrow.playing(script) as played:
        calls = []
        for number, size in enumerate(sizes):
            narrow.driver.notify(HostMethod.RESET_TURN, [number, bytes([number]) * size])
            calls.append(asyncio.ensure_future(narrow.driver.call(0, _METHOD, [number, bytes([number]) * size])))
            await asyncio.sleep(0)
        assert await asyncio.gather(*calls) == list(range(len(sizes)))
    assert played.result() == [(number, size) for number, size in enumerate(sizes) for _ in range(2)]


async def test_what_waits_to_be_sent_goes_out_before_a_call_in_place(narrow: Rig) -> None:
    def script(host: ScriptedHost) -> list[int]:
        heard = []
        for _ in range(3):
            frame = host.take(Kind.NOTIFY, Kind.REQUEST)
            heard.append(len(host.value(frame)))
        host.respond(frame.id)
        return heard

    async with narrow.playing(script) as played:
        for size in (_LARGE, 1):
            narrow.driver.notify(HostMethod.RESET_TURN, bytes(size))
        narrow.driver.call_sync(0, _METHOD, bytes(2))
    assert played.result() == [_LARGE, 1, 2]


async def test_a_reply_during_a_blocked_call_splits_no_frame(narrow: Rig) -> None:
    """The call's frame is half sent as requests come in, whose answers have to line up behind it."""
    counter = _Counter()
    entry = await narrow.export(counter)

    def script(host: ScriptedHost) -> None:
        ids = [host.request(entry.id, 0, bytes(1000 + number), flags=Flag.IN_PLACE) for number in range(20)]
        request = host.request_from_worker()
        assert len(host.value(request)) == _LARGE
        assert [host.answer(id) for id in ids] == [1000 + number for number in range(20)]
        host.respond(request.id)

    async with narrow.playing(script):
        narrow.driver.call_sync(0, _METHOD, bytes(_LARGE))


async def test_what_is_too_large_fails_in_the_call_and_leaves_no_trace(rig: Rig) -> None:
    rig.driver.connection.send_limit = 2000

    class Thing:
        text = "x" * 100

    thing = Thing()
    for attempt in (rig.driver.call_sync, rig.driver.call):
        with pytest.raises(Exception, match="over the limit"):
            result = attempt(0, _METHOD, [thing, bytes(3000)])
            await result
    with pytest.raises(Exception, match="over the limit"):
        rig.driver.notify(HostMethod.RESET_TURN, [thing, bytes(3000)])
    entry = await rig.export(thing)
    assert rig.host.description(entry).attributes == {"text": "x" * 100}


async def test_the_welcome_says_how_large_a_frame_may_be() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    host = ScriptedHost(ours)
    worker = Worker(theirs, "scripted", AttemptRecorder())
    running = asyncio.ensure_future(worker.run())
    await asyncio.to_thread(host.greet, frame_max=1234)
    await until(lambda: worker.driver.connection.send_limit == 1234)
    host.close()
    async with asyncio.timeout(60):
        await running


async def test_the_greeting_says_who_speaks() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    host = ScriptedHost(ours)
    running = asyncio.ensure_future(Worker(theirs, "tool-x", AttemptRecorder()).run())
    hello = await asyncio.to_thread(host.greet)
    assert host.value(hello) == {"protocol": 1, "module": "tool-x", "pid": os.getpid()}
    host.close()
    async with asyncio.timeout(60):
        await running
