"""Whoever is accepted is somebody's: served to the end, or closed, at whatever moment the door is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from host.egress.ground import LOOPBACK, PATIENCE, Line, brief
from paddock.egress import listener as door
from paddock.egress.listener import Listener

Serve = Callable[[socket.socket], Coroutine[Any, Any, None]]


@asynccontextmanager
async def door_to(serve: Serve) -> AsyncIterator[tuple[Listener, tuple[str, int], list[dict[str, Any]]]]:
    """Have a door, where to connect to it, and what the loop is told of."""
    listener = socket.create_server((LOOPBACK, 0))
    listener.setblocking(False)
    where = listener.getsockname()
    problems: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    opened = Listener([listener], brief(), serve, lambda accepted: accepted.close())
    try:
        yield opened, where, problems
    finally:
        with anyio.fail_after(PATIENCE):
            await opened.close()


async def test_a_connection_that_is_ended_before_it_was_served_at_all_is_reset() -> None:
    accepted: list[socket.socket] = []
    loop = asyncio.get_running_loop()

    async def never() -> None:
        raise AssertionError("it was ended before")

    def serve(one: socket.socket) -> Coroutine[Any, Any, None]:
        accepted.append(one)
        others = asyncio.all_tasks()
        loop.call_soon(lambda: [task.cancel() for task in asyncio.all_tasks() - others])  # comes before its first step
        return never()

    async with door_to(serve) as (_, where, problems):
        line = await Line.to(where)
        assert await line.rest() == b"RESET"
        assert [one.fileno() for one in accepted] == [-1]
    assert not problems


async def test_closing_waits_for_those_who_are_served_and_leaves_none_of_them() -> None:
    ended: list[bool] = []

    async def serve(accepted: socket.socket) -> None:
        accepted.send(b"x")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append(accepted.fileno() >= 0)

    async with door_to(serve) as (opened, where, problems):
        lines = [await Line.to(where) for _ in range(3)]
        assert [await line.hear(1) for line in lines] == [b"x"] * 3
        await opened.close()
        assert ended == [True] * 3
        for line in lines:
            assert await line.rest() == b"RESET"
    assert not problems


async def test_one_who_does_not_let_go_is_cut_off_and_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_END_SECONDS", 0.05)
    may_end = asyncio.Event()

    async def serve(accepted: socket.socket) -> None:
        accepted.send(b"x")
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await may_end.wait()

    async with door_to(serve) as (opened, where, problems):
        line = await Line.to(where)
        await line.hear(1)
        with anyio.fail_after(PATIENCE):
            await opened.end_connections()
        assert await line.rest() == b""
        assert [problem["message"] for problem in problems] == ["a connection does not end"]
        may_end.set()
        await line.close()
