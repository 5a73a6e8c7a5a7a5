"""Every way a worker can end is reported as what it was."""

from __future__ import annotations

import signal

import anyio
import pytest

from host.workers.conftest import Launch, by_every_launcher
from host.workers.waiting import PATIENCE, ended, here
from paddock.workers.exit_report import ExitReport

# How each ends by itself, and what it says last.
_ENDS = {
    "returns": (0, ("tool-x is done",)),
    "exits_with_3": (3, ()),
    "exits_with_text": (1, ("no luck",)),
    "raises": (1, ("RuntimeError: broken on purpose",)),
    "outlives_its_entry": (0, ("thread done", "at exit")),  # its threads and exit handlers run to their end
}


@by_every_launcher
async def test_a_worker_that_ends_by_itself_is_reported_with_what_it_said_last(launch: Launch) -> None:
    for function, (code, said) in _ENDS.items():
        process = await launch(function)
        status = await ended(process)
        assert (status.code, status.signal) == (code, None), function
        assert status.peak_memory_bytes is not None and status.peak_memory_bytes > 1 << 20
        assert status.user_time is not None and status.system_time is not None
        assert status.left_behind == 0
        assert process.output.tail(len(said)) == said or not said, function


@pytest.mark.parametrize(
    ("function", "grace", "number"),
    [
        ("waits", PATIENCE, signal.SIGTERM),
        ("ignores_sigterm", 0.05, signal.SIGKILL),
        ("stops_its_init", 0.05, signal.SIGKILL),
    ],
)
async def test_a_worker_is_terminated_and_killed_when_its_grace_is_over(
    launch: Launch, function: str, grace: float, number: signal.Signals
) -> None:
    process = await launch(function)
    await here(process)
    with anyio.fail_after(PATIENCE):
        status = await process.stop(grace)
    assert status.signal == number


async def test_a_killed_worker_sees_nothing_of_its_closed_connection(launch: Launch) -> None:
    # `waits` returns when its connection closes; the order of the two is a race that it won one time in a few.
    processes = [await launch("waits") for _ in range(10)]
    for process in processes:
        await here(process)
        process.kill()
        process.rpc.close()
    assert [(await ended(process)).signal for process in processes] == [signal.SIGKILL] * len(processes)


async def test_a_worker_that_kills_its_init_ends_with_it_and_is_reported_as_lost(launch: Launch) -> None:
    status = await ended(await launch("kills_its_init"))
    assert (status.code, status.signal) == (None, None)
    assert "vanished without a report" in ExitReport.of("tool-x", status).describe()


async def test_the_end_is_told_to_every_listener_even_a_late_one(launch: Launch) -> None:
    process = await launch("exits_with_3")
    early: list[int | None] = []
    process.on_exit(lambda status: early.append(status.code))
    await ended(process)
    late = anyio.Event()
    process.on_exit(lambda status: late.set())
    with anyio.fail_after(PATIENCE):
        await late.wait()
    assert early == [3]
    assert process.status is not None and process.status.code == 3


async def test_a_waiter_that_gives_up_leaves_the_end_to_the_others(launch: Launch) -> None:
    process = await launch("waits")
    await here(process)
    with anyio.move_on_after(0):
        await process.wait()
    process.kill()
    assert (await ended(process)).signal == signal.SIGKILL


async def test_a_process_that_has_ended_can_be_stopped_again(launch: Launch) -> None:
    process = await launch("exits_with_3")
    await ended(process)
    process.kill()
    process.terminate()
    assert (await process.stop(1)).code == 3
