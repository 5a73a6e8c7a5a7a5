"""A worker's loop leaves out a question to the kernel now and then, and never for long."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Iterator

import pytest

from paddock_sdk.worker.main import PatientSelector, new_event_loop


@pytest.fixture
def readable() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        yield ours


def test_every_second_question_that_does_not_wait_is_asked(readable: socket.socket) -> None:
    with PatientSelector() as selector:
        selector.register(readable, selectors.EVENT_READ)
        assert [len(selector.select(0)) for _ in range(4)] == [1, 0, 1, 0]


def test_a_question_that_waits_is_always_asked(readable: socket.socket) -> None:
    with PatientSelector() as selector:
        selector.register(readable, selectors.EVENT_READ)
        assert [len(selector.select(timeout)) for timeout in (None, 5, 0, 5, None)] == [1, 1, 0, 1, 1]


def test_code_that_never_pauses_keeps_no_socket_waiting(readable: socket.socket) -> None:
    turns = 0

    async def spin() -> None:
        nonlocal turns
        came = asyncio.Event()
        asyncio.get_running_loop().add_reader(readable, came.set)
        while not came.is_set():
            turns += 1
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(spin())
    assert turns <= 3


def test_the_loop_is_the_one_that_code_of_its_thread_finds() -> None:
    async def found() -> bool:
        return asyncio.get_event_loop_policy().get_event_loop() is asyncio.get_running_loop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(found())
    asyncio.set_event_loop(None)
