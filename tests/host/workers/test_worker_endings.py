"""Every way a worker can end is reported as what it was."""

from __future__ import annotations

import signal

import anyio
import pytest

from host.workers.conftest import Launch
from host.workers.waiting import PATIENCE, ended, here
from paddock.workers.exit_report import ExitReport


@pytest.mark.parametrize(
    ("function", "code"),
    [("returns", 0), ("exits_with_3", 3), ("exits_with_text", 1), ("raises", 1), ("outlives_its_entry", 0)],
)
async def test_a_worker_that_ends_by_itself_is_reported_with_its_exit_code(
    launch: Launch, function: str, code: int
) -> None:
    status = await ended(await launch(function))
    assert (status.code, status.signal) == (code, None)
    assert status.peak_memory_bytes is not None and status.peak_memory_bytes > 1 << 20
    assert status.user_time is not None and status.system_time is not None
    assert status.left_behind == 0


async def test_what_a_worker_said_last_is_kept(launch: Launch) -> None:
    process = await launch("raises")
    await ended(process)
    assert process.output.tail(1, "stderr") == ("RuntimeError: broken on purpose",)
    process = await launch("exits_with_text")
    await ended(process)
    assert process.output.tail(1) == ("no luck",)
    process = await launch("returns")
    await ended(process)
    assert process.output.tail(5, "stdout") == ("tool-x is done",)


async def test_threads_and_exit_handlers_of_a_worker_run_to_their_end(launch: Launch) -> None:
    process = await launch("outlives_its_entry")
    await ended(process)
    assert process.output.tail(5, "stdout") == ("thread done", "at exit")


async def test_a_crash_is_named_by_its_signal(launch: Launch) -> None:
    process = await launch("segfaults")
    status = await ended(process)
    assert (status.code, status.signal_name) == (None, "SIGSEGV")
    report = ExitReport.of("tool-x", status, stderr_tail=process.output.tail(3, "stderr"))
    assert report.describe().startswith("tool-x was killed by SIGSEGV after ")
    assert report.stderr_tail[0] == "about to fault"


async def test_a_worker_is_terminated_before_it_is_killed(launch: Launch) -> None:
    process = await launch("waits")
    await here(process)
    with anyio.fail_after(PATIENCE):
        status = await process.stop(PATIENCE)
    assert status.signal == signal.SIGTERM


async def test_a_worker_that_ignores_sigterm_is_killed_when_its_grace_is_over(launch: Launch) -> None:
    process = await launch("ignores_sigterm")
    await here(process)
    with anyio.fail_after(PATIENCE):
        status = await process.stop(0.05)
    assert status.signal == signal.SIGKILL


async def test_kill_does_not_ask(launch: Launch) -> None:
    process = await launch("ignores_sigterm")
    await here(process)
    process.kill()
    assert (await ended(process)).signal == signal.SIGKILL


async def test_a_killed_worker_sees_nothing_of_its_closed_connection(launch: Launch) -> None:
    # `waits` returns when its connection closes; the order of the two is a race that it won one time in a few.
    processes = [await launch("waits") for _ in range(10)]
    for process in processes:
        await here(process)
        process.kill()
        process.rpc.close()
    assert [(await ended(process)).signal for process in processes] == [signal.SIGKILL] * len(processes)


async def test_a_worker_that_stops_its_init_does_not_outlive_a_stop(launch: Launch) -> None:
    process = await launch("stops_its_init")
    await here(process)
    with anyio.fail_after(PATIENCE):
        status = await process.stop(0.05)
    assert status.signal == signal.SIGKILL


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
