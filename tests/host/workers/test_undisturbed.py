"""What is done to its end although the task that waits for it is cancelled."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from paddock.workers.worker_host import run_undisturbed


class Work:
    """Ends when it may; knows whether it was left to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = asyncio.Event()
        self.is_done = False
        self._error = error

    async def run(self) -> str:
        await self.may_end.wait()
        self.is_done = True
        if self._error is not None:
            raise self._error
        return "done"


async def test_what_is_not_cancelled_returns_or_raises_as_the_work_does() -> None:
    work, failing = Work(), Work(LookupError("no such thing"))
    work.may_end.set()
    failing.may_end.set()
    assert await run_undisturbed(work.run()) == "done"
    with pytest.raises(LookupError):
        await run_undisturbed(failing.run())


@pytest.mark.parametrize("error", (None, LookupError("no such thing")))
async def test_a_cancelled_task_ends_after_its_work_however_often(error: Exception | None) -> None:
    work = Work(error)
    task = asyncio.create_task(run_undisturbed(work.run()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert work.is_done
    assert cancelled.value.__cause__ is error


async def test_a_cancelled_scope_waits_for_the_work_as_well() -> None:
    work = Work()
    with anyio.CancelScope() as scope:
        scope.cancel()
        asyncio.get_running_loop().call_soon(work.may_end.set)
        assert await run_undisturbed(work.run()) == "done"
    assert work.is_done
