"""Nothing a worker started outlives it, whoever ends it and however it hid."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest

from host.workers.conftest import Launch
from host.workers.waiting import PATIENCE, children_of, ended, fifo, here, nobody_holds


async def test_processes_that_fork_as_fast_as_they_die_are_caught(launch: Launch, tmp_path: Path) -> None:
    with fifo(tmp_path / "fifo") as held:
        process = await launch("forks_without_end", environ={"FIFO": str(tmp_path / "fifo")})
        await here(process)
        assert (await ended(process)).left_behind == 0
        await nobody_holds(held)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_worker_killed_by_a_stranger_takes_its_daemons_along(
    launch: Launch, tmp_path: Path, number: signal.Signals
) -> None:
    with fifo(tmp_path / "fifo") as held:
        process = await launch("leaves_daemons", environ={"FIFO": str(tmp_path / "fifo")})
        await here(process)
        os.kill(process.pid, number)
        assert (await ended(process)).signal == number
        await nobody_holds(held)


async def test_orphans_that_end_all_at_once_are_all_reaped(launch: Launch) -> None:
    process = await launch("leaves_orphans", environ={"ORPHANS": "150"})
    await here(process)
    with anyio.fail_after(PATIENCE):
        while len(orphans := set(children_of(process.init_pid)) - {process.pid}) < 150:
            await anyio.lowlevel.checkpoint()
        os.kill(process.init_pid, signal.SIGSTOP)  # so that it is signalled once for all of them
        process.rpc.send(b".")
        while any(psutil.Process(orphan).status() != psutil.STATUS_ZOMBIE for orphan in orphans):
            await anyio.lowlevel.checkpoint()
        os.kill(process.init_pid, signal.SIGCONT)
        while children_of(process.init_pid) != [process.pid]:
            await anyio.lowlevel.checkpoint()


async def test_an_orphan_that_ends_while_the_worker_lives_is_reaped(launch: Launch, tmp_path: Path) -> None:
    with fifo(tmp_path / "fifo"):
        process = await launch("leaves_daemons", environ={"FIFO": str(tmp_path / "fifo")})
        await here(process)
        with anyio.fail_after(PATIENCE):  # an orphan is one only when what forked it has ended
            while not (orphans := set(children_of(process.init_pid)) - {process.pid}):
                await anyio.lowlevel.checkpoint()
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while children_of(process.init_pid) != [process.pid]:
                await anyio.lowlevel.checkpoint()
