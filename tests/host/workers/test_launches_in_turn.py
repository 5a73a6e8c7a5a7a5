"""Few launches are under way at once, over all launchers of a host."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from paddock.workers.launcher import InTurn, LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock.workers.runtime import WorkerRuntime


class _Slow:
    """A launcher whose launches go on until they are let go, and then fail."""

    def __init__(self) -> None:
        self.under_way: list[str] = []
        self.may_go = asyncio.Event()

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        self.under_way.append(spec.name)
        await self.may_go.wait()
        raise ChildProcessError


def _spec(name: str) -> LaunchSpec:
    return LaunchSpec(name, Path("/"), {}, WorkerRuntime.locate())


async def test_launches_wait_for_a_turn_that_all_launchers_share() -> None:
    turns = anyio.CapacityLimiter(2)
    forks, execs = _Slow(), _Slow()
    launches = [asyncio.ensure_future(InTurn(forks, turns).launch(_spec(name))) for name in "ab"]
    launches += [asyncio.ensure_future(InTurn(execs, turns).launch(_spec(name))) for name in "cd"]
    await anyio.wait_all_tasks_blocked()
    assert (forks.under_way, execs.under_way) == (["a", "b"], [])

    forks.may_go.set()  # the failed launches hand their turns on
    await anyio.wait_all_tasks_blocked()
    assert execs.under_way == ["c", "d"]

    execs.may_go.set()
    assert [type(await _outcome(launch)) for launch in launches] == [ChildProcessError] * 4


async def test_a_launch_cancelled_before_its_turn_takes_none() -> None:
    turns, slow = anyio.CapacityLimiter(1), _Slow()
    launcher = InTurn(slow, turns)
    launches = [asyncio.ensure_future(launcher.launch(_spec(name))) for name in "abc"]
    await anyio.wait_all_tasks_blocked()
    launches[1].cancel()
    slow.may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await launches[1]
    assert [type(await _outcome(launch)) for launch in (launches[0], launches[2])] == [ChildProcessError] * 2
    assert slow.under_way == ["a", "c"]


async def _outcome(launch: asyncio.Future[ModuleProcess]) -> BaseException | None:
    await asyncio.wait([launch])
    return launch.exception()
