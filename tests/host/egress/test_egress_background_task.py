"""What is done while a block runs has ended when it is left, however that is, and its errors are somebody's."""

from __future__ import annotations

import asyncio

import pytest

from paddock.egress.http.exchange import background_task


async def _for_ever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("task")


async def _fail() -> None:
    raise ZeroDivisionError


async def test_it_is_over_when_the_block_is() -> None:
    ended: list[str] = []
    async with background_task(_for_ever(ended)):
        await asyncio.sleep(0)
    assert ended == ["task"]


async def test_it_is_over_before_an_error_of_the_block_is_seen() -> None:
    ended: list[str] = []
    with pytest.raises(KeyError):
        async with background_task(_for_ever(ended)):
            await asyncio.sleep(0)
            raise KeyError
    assert ended == ["task"]


async def test_an_error_of_it_is_raised_when_the_block_has_none() -> None:
    with pytest.raises(ZeroDivisionError):
        async with background_task(_fail()):
            await asyncio.sleep(0)


async def test_of_two_errors_that_of_the_block_is_raised_and_the_other_is_known() -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    with pytest.raises(KeyError):
        async with background_task(_fail()):
            await asyncio.sleep(0)
            raise KeyError
    assert not problems


async def test_who_is_cancelled_while_it_ends_is_cancelled() -> None:
    may_end = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()

    async def run() -> None:
        async with background_task(slow()):
            await asyncio.sleep(0)

    running = asyncio.create_task(run())
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running
