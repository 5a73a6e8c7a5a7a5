"""The system is asked for the addresses of names: for each once at a time, a few at a time, and nobody hangs on it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import anyio
import pytest

from host.egress.ground import PATIENCE
from paddock.egress.dialer import SystemResolver


class Slow:
    """A system that answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.may_answer = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, name: str, *_: Any, **__: Any) -> list[Any]:
        with self._lock:
            self.asked.append(name)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        self.may_answer.wait(PATIENCE)
        with self._lock:
            self.at_once -= 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    system = Slow()
    monkeypatch.setattr(socket, "getaddrinfo", system)
    yield system
    system.may_answer.set()


async def test_what_the_system_knows_is_told() -> None:
    found = await SystemResolver()("localhost")
    assert ip_address("127.0.0.1") in found or ip_address("::1") in found


async def test_what_it_does_not_know_is_an_error() -> None:
    with pytest.raises(socket.gaierror):
        await SystemResolver()("does-not-exist.invalid")


async def test_many_who_ask_for_one_name_make_one_question(slow: Slow) -> None:
    resolver = SystemResolver()
    asking = [asyncio.create_task(resolver("api.test")) for _ in range(10)]
    await asyncio.sleep(0)
    slow.may_answer.set()
    with anyio.fail_after(PATIENCE):
        assert {tuple(map(str, found)) for found in await asyncio.gather(*asking)} == {("192.0.2.1",)}
    assert slow.asked == ["api.test"]
    await resolver("api.test")
    assert slow.asked == ["api.test"] * 2


async def test_few_names_are_looked_up_at_once_even_if_callers_give_up(slow: Slow) -> None:
    resolver = SystemResolver()
    asking = [asyncio.create_task(resolver(f"name-{number}.test")) for number in range(20)]
    with anyio.fail_after(PATIENCE):
        while slow.at_once < 4:
            await asyncio.sleep(0.01)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    more = asyncio.create_task(resolver("another.test"))
    await asyncio.sleep(0.05)
    assert len(slow.asked) == 4
    slow.may_answer.set()
    with anyio.fail_after(PATIENCE):
        await more
    assert slow.most_at_once == 4


async def test_there_are_no_more_questions_than_those_who_wait_and_a_few(slow: Slow) -> None:
    resolver = SystemResolver()
    before = len(asyncio.all_tasks())
    for turn in range(20):
        asking = [asyncio.create_task(resolver(f"name-{turn}-{number}.test")) for number in range(20)]
        await asyncio.sleep(0.01)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert len(asyncio.all_tasks()) - before <= 4
    assert len(slow.asked) == 4
    slow.may_answer.set()
    await resolver.aclose()


async def test_an_abandoned_lookup_can_be_repeated_at_once(slow: Slow) -> None:
    resolver = SystemResolver()
    busy = [asyncio.create_task(resolver(f"name-{number}.test")) for number in range(4)]
    waiting = [asyncio.create_task(resolver("api.test")) for _ in range(3)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()
    await asyncio.sleep(0)
    assert not waiting[1].done()  # others wait for the same
    for task in waiting[1:]:
        task.cancel()
    again = asyncio.create_task(resolver("api.test"))
    await asyncio.gather(*waiting, return_exceptions=True)
    slow.may_answer.set()
    with anyio.fail_after(PATIENCE):
        assert list(map(str, await again)) == ["192.0.2.1"]
        await asyncio.gather(*busy)
    assert slow.asked.count("api.test") == 1


async def test_closing_waits_for_no_answer_and_leaves_no_question(slow: Slow) -> None:
    resolver = SystemResolver()
    before = asyncio.all_tasks()
    asking = [asyncio.create_task(resolver(f"name-{number}.test")) for number in range(10)]
    with anyio.fail_after(PATIENCE):
        while len(slow.asked) < 4:
            await asyncio.sleep(0.01)
        await resolver.aclose()
        assert asyncio.all_tasks() - before <= set(asking)
        for task in asking:
            with pytest.raises(asyncio.CancelledError):
                await task
