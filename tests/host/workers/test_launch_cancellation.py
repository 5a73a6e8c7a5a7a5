"""A launch that is given up, at whatever moment, leaves neither a process nor a descriptor."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable

import anyio
import pytest

from host.workers.conftest import Launch, by, by_every_launcher, left_open, open_fds
from host.workers.levels import BWRAP, NS, NS_BY_EXEC, Way
from host.workers.waiting import PATIENCE, ended, here
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.init_socket import InitSocket
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.process import ModuleProcess
from support.children import children_of_this_process, descendants_of_this_process
from support.examples import IN_FULL


async def only_these_live(pids: set[int]) -> None:
    """Return once nothing else is under this process; a dying process is seen for a moment longer."""
    with anyio.fail_after(PATIENCE):
        while not descendants_of_this_process() <= pids:
            await anyio.sleep(0.005)  # what it waits for needs the processor


@pytest.mark.exhaustive("task.cancel")
@by_every_launcher
@pytest.mark.parametrize("native", [False, True], ids=["cancel scope", "task.cancel"])
async def test_a_launch_cancelled_after_some_turns_of_the_loop_leaves_nothing(
    launcher: Launcher, spec: LaunchSpec, native: bool
) -> None:
    # A first launch has the template started, which is to stay.
    first = await launcher.launch(spec)
    fds, known = open_fds(), descendants_of_this_process()
    for turns in (0, 1, 2, 4, 10, 100, 1000):
        scope = anyio.CancelScope()
        launched: list[ModuleProcess] = []
        task = asyncio.get_running_loop().create_task(launch_into(launched, launcher, spec, scope))
        for _ in range(turns):
            await asyncio.sleep(0)
        if native:
            task.cancel()
        else:
            scope.cancel()
        with anyio.fail_after(PATIENCE):
            await asyncio.wait([task])
        for process in launched:  # it was quicker than the cancellation
            await process.stop(0)
            process.rpc.close()
        await only_these_live(known)
        assert descendants_of_this_process() == known, f"somebody else was ended along, after {turns} turns"
        await only_these_are_open(fds)
    await first.stop(0)
    first.rpc.close()


async def launch_into(
    launched: list[ModuleProcess], launcher: Launcher, spec: LaunchSpec, scope: anyio.CancelScope
) -> None:
    with scope:
        launched.append(await launcher.launch(spec))


async def only_these_are_open(fds: set[str]) -> None:
    """Return once no other descriptor is open.

    Where a cancellation could not be held off, the loop lets go of a process when that has ended; an exec'd interpreter
    is reaped a moment after its worker.
    """
    with anyio.fail_after(PATIENCE):
        while left_open(fds):
            await asyncio.sleep(0.01)


@pytest.mark.exhaustive("-2")
@pytest.mark.parametrize("cancellations", [1, 2])  # the first can be held off, the second cannot
@by(NS, NS_BY_EXEC, BWRAP)
async def test_a_launch_that_is_given_up_half_way_leaves_nothing(start: Launch, way: Way, cancellations: int) -> None:
    for _ in range(2):  # the first one may have a template started
        began = time.monotonic()
        process = await start()
        took = time.monotonic() - began
        await process.stop(0)
        process.rpc.close()
    fds = open_fds()
    for part in range(0, 12, 1 if IN_FULL or way.by == "template" else 3):
        launching = asyncio.get_running_loop().create_task(start())
        with anyio.move_on_after(took * part / 10):
            await asyncio.wait([launching])
        for _ in range(cancellations):
            launching.cancel()
            await asyncio.sleep(0)
        with anyio.fail_after(PATIENCE):
            await asyncio.wait([launching])
        if not launching.cancelled():  # it was quicker than the cancellation
            await launching.result().stop(0)
            launching.result().rpc.close()
    await only_these_are_open(fds)  # that nothing else is left is seen after the test


@by_every_launcher
@pytest.mark.parametrize("moment", ["ready", "exited"])
async def test_a_launch_cancelled_as_its_worker_speaks_leaves_nothing(
    launcher: Launcher, spec: LaunchSpec, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = InitSocket.__init__
    scope = anyio.CancelScope()
    first = await launcher.launch(spec)
    known = descendants_of_this_process()

    def make(init_socket: InitSocket, line: socket.socket, on_change: Callable[[], None]) -> None:
        def changed() -> None:
            on_change()
            if getattr(init_socket, moment) is not None:
                scope.cancel()

        made(init_socket, line, changed)

    monkeypatch.setattr(InitSocket, "__init__", make)
    with anyio.fail_after(PATIENCE), scope:
        process = await launcher.launch(spec)
        await process.stop(0)
        process.rpc.close()
    assert scope.cancel_called
    await only_these_live(known)
    monkeypatch.undo()
    await first.stop(0)
    first.rpc.close()


@pytest.mark.usefixtures("cold_templates")
async def test_a_launch_can_be_cancelled_while_its_template_starts(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    known = descendants_of_this_process()
    with anyio.move_on_after(0.005):
        process = await template_launcher.launch(spec)
        await process.stop(0)
        process.rpc.close()
    await only_these_live(known | children_of_this_process())
    with anyio.fail_after(PATIENCE):
        process = await template_launcher.launch(spec)
    await here(process)
    process.rpc.close()
    assert (await ended(process)).code == 0


@by_every_launcher
@pytest.mark.parametrize("native", [False, True], ids=["cancel scope", "task.cancel"])
async def test_a_stop_that_is_cancelled_still_ends_the_process(launch: Launch, native: bool) -> None:
    process = await launch("waits")
    await here(process)
    if native:
        task = asyncio.get_running_loop().create_task(process.stop(PATIENCE))
        await asyncio.sleep(0)
        task.cancel()
        with anyio.fail_after(PATIENCE):
            await asyncio.wait([task])
        await ended(process)  # the kill is left to its init
    else:
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            scope.cancel()
            await process.stop(PATIENCE)
    assert process.status is not None
