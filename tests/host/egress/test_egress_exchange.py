"""One exchange on ends that a test holds up: what ends early is not taken for done, and nothing is left of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import anyio
import pytest

from host.egress.ground import PATIENCE, Ledger
from host.egress.origin import SWITCHED
from paddock.egress.connection_record import ConnectionRecord, UpstreamConnection
from paddock.egress.errors import AnswerError
from paddock.egress.http.exchange import HttpExchange
from paddock.egress.http.request_head import take_head
from paddock.egress.injection import InjectedKeys, KeyInjection
from paddock.egress.stream import SocketStream
from paddock.plan.host_name import Destination
from paddock.plan.net_rule import NetRule

HEAD = b"POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 10\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
WEBSOCKET = b"GET / HTTP/1.1\r\nHost: api.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
KEY = KeyInjection("KEY", "placeholder", "value-of-the-key", NetRule.parse("api.test"))


T = TypeVar("T")


class End(SocketStream):
    """An end that a test speaks at; what waits for it can be counted, and held up though it is cancelled."""

    def __init__(self) -> None:
        ours, self._peer = socket.socketpair()
        super().__init__(ours)
        self.sent = b""
        self.waiting = 0
        self.stuck: bytes | None = None  # what is never taken to its end
        self.is_stuck = asyncio.Event()
        self.is_broken = False
        self.lets_go = asyncio.Event()
        self.lets_go.set()
        self._said: asyncio.Queue[bytes] = asyncio.Queue()

    def say(self, data: bytes) -> None:
        self._said.put_nowait(data)

    async def receive(self) -> bytes:
        return await self._waited(self._said.get())

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_broken:
            raise BrokenPipeError
        self.sent += bytes(data)
        if self.stuck is not None and self.stuck in bytes(data):
            self.is_stuck.set()
            await self._waited(asyncio.Event().wait())

    async def _waited(self, wait: Coroutine[Any, Any, T]) -> T:
        self.waiting += 1
        try:
            return await wait
        except asyncio.CancelledError:
            await self.lets_go.wait()
            raise
        finally:
            self.waiting -= 1

    def close(self) -> None:
        super().close()
        self._peer.close()


class Stage:
    """A client, a destination, and an exchange between them."""

    def __init__(self) -> None:
        self.client = End()
        self.upstream = End()

    def exchange(self, said: bytes, *injections: KeyInjection) -> HttpExchange:
        record = ConnectionRecord(Ledger(), "tool-x", "direct", {"net": set(), "secrets": set()})
        record.requests = 1
        link = UpstreamConnection(
            Destination("api.test", 443), self.upstream, self.upstream, record, InjectedKeys(injections)
        )
        head = take_head(bytearray(said), 1 << 14)
        assert head is not None
        return HttpExchange(self.client, head, link, b"/")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    yield stage
    for end in (stage.client, stage.upstream):
        end.close()


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not is_so():
            await asyncio.sleep(0)


async def assert_cancelled_and_over(running: asyncio.Task[bytes | None], held_up: End) -> None:
    """Cancel an exchange whose last wait is for what it began at an end that holds it up."""
    running.cancel()
    await asyncio.sleep(0.01)
    assert not running.done()
    held_up.lets_go.set()
    with pytest.raises(asyncio.CancelledError), anyio.fail_after(PATIENCE):
        await running
    assert not held_up.waiting


async def test_a_link_is_not_kept_where_the_end_of_a_body_was_not_taken(stage: Stage) -> None:
    stage.upstream.stuck = b"LAST"
    exchange = stage.exchange(HEAD)
    with anyio.fail_after(PATIENCE):
        running = asyncio.create_task(exchange.run(b"xx"))
        stage.client.say(b"xxxxLAST")
        await stage.upstream.is_stuck.wait()
        stage.upstream.say(ANSWER)
        # Of the client all was heard: its connection goes on, on another link.
        assert await running == b""
    assert stage.client.sent.endswith(b"ok")
    assert not exchange.keeps_link
    assert not stage.upstream.waiting


async def test_a_connection_that_broke_before_a_body_is_not_kept(stage: Stage) -> None:
    stage.upstream.is_broken = True
    exchange = stage.exchange(HEAD)
    stage.upstream.say(ANSWER)
    with anyio.fail_after(PATIENCE):
        assert await exchange.run(b"x" * 10) == b""
    assert not exchange.keeps_link


@pytest.mark.parametrize("first", [b"x" * 10, b"xx"])
async def test_a_link_is_kept_that_took_all_of_a_request(stage: Stage, first: bytes) -> None:
    exchange = stage.exchange(HEAD)
    with anyio.fail_after(PATIENCE):
        running = asyncio.create_task(exchange.run(first))
        if len(first) < 10:
            stage.client.say(b"x" * (10 - len(first)))
        while not stage.upstream.sent.endswith(b"x" * 10):
            await asyncio.sleep(0)
        stage.upstream.say(ANSWER)
        await running
    assert exchange.keeps_link


async def test_a_cancellation_is_not_lost_while_the_rest_of_a_body_is_given_up(stage: Stage) -> None:
    stage.upstream.stuck = b"xx"
    stage.upstream.lets_go.clear()
    running = asyncio.create_task(stage.exchange(HEAD).run(b"xx"))
    await until(stage.upstream.is_stuck.is_set)
    stage.upstream.say(ANSWER)
    await until(lambda: stage.client.sent.endswith(b"ok"))
    await assert_cancelled_and_over(running, stage.upstream)


async def test_a_cancellation_survives_the_end_of_one_websocket_direction(stage: Stage) -> None:
    stage.client.lets_go.clear()
    running = asyncio.create_task(stage.exchange(WEBSOCKET).run(b""))
    stage.upstream.say(SWITCHED)
    await until(lambda: stage.client.sent.startswith(b"HTTP/1.1 101 ") and bool(stage.client.waiting))
    stage.client.is_broken = True
    stage.upstream.say(b"hello")
    for _ in range(10):
        await asyncio.sleep(0)
    await assert_cancelled_and_over(running, stage.client)


@pytest.mark.parametrize("said", [WEBSOCKET, HEAD.replace(b"10", b"0")], ids=["websocket", "request"])
async def test_no_task_reads_a_destination_after_the_exchange(stage: Stage, said: bytes) -> None:
    listening: list[int] = []

    async def carried_out() -> None:
        try:
            await stage.exchange(said, KEY).run(b"")
        finally:
            listening.append(stage.upstream.waiting)

    running = asyncio.create_task(carried_out())
    stage.upstream.say(SWITCHED if said is WEBSOCKET else b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
    await until(lambda: stage.client.sent.endswith(b"\r\n\r\n"))
    stage.client.is_broken = True
    # Too little to be passed on at once: it is tried in the pause after it, while more is waited for.
    stage.upstream.say(b"hello")
    with pytest.raises((AnswerError, OSError)), anyio.fail_after(PATIENCE):
        await running
    assert listening == [0]
