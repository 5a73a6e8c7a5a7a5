"""A supervisor keeps one module alive as long as that makes sense, and says how each life ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace

import anyio
import pytest

from host.workers.conftest import with_entry
from host.workers.waiting import PATIENCE, ended, here
from paddock.errors import LaunchError, QuarantinedError, RevokedError
from paddock.workers.exit_report import ExitReason, ExitReport, LimitHit
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.launcher import LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock.workers.restart import RestartPolicy
from paddock.workers.supervisor import Supervisor
from support.children import children_of_this_process

Supervise = Callable[..., Supervisor]


class ManualClock:
    """Time passes when somebody waits for it, and is written down."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.time += seconds


class StoppedClock(ManualClock):
    """Time never passes."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.Event().wait()


class HeldLauncher:
    """Launches as another does, and hands the process out when it is let go."""

    def __init__(self, launcher: ForkServerLauncher) -> None:
        self._launcher = launcher
        self.launched: ModuleProcess | None = None
        self.has_launched = anyio.Event()
        self.may_go_on = anyio.Event()

    async def launch(self, spec: LaunchSpec) -> ModuleProcess:
        self.launched = await self._launcher.launch(spec)
        self.has_launched.set()
        await self.may_go_on.wait()
        return self.launched


@pytest.fixture
async def supervise(template_launcher: ForkServerLauncher, spec: LaunchSpec) -> AsyncIterator[Supervise]:
    supervisors: list[Supervisor] = []

    def supervise(function: str = "waits", **settings: object) -> Supervisor:
        settings = {"clock": ManualClock(), "goodbye_seconds": PATIENCE, "terminate_seconds": PATIENCE, **settings}
        supervisor = Supervisor(template_launcher, with_entry(spec, function), **settings)  # type: ignore[arg-type]
        supervisors.append(supervisor)
        return supervisor

    yield supervise
    for supervisor in supervisors:
        await supervisor.stop()
    while _started:
        _started.pop().rpc.close()


_started: list[ModuleProcess] = []


async def started(supervisor: Supervisor) -> ModuleProcess:
    """Return its process, whose connection the fixture closes."""
    with anyio.fail_after(PATIENCE):
        _started.append(await supervisor.start())
    return _started[-1]


async def living(supervise: Supervise, function: str = "waits", **settings: object) -> tuple[Supervisor, ModuleProcess]:
    """Return a supervisor and its process, which is where it waits."""
    supervisor = supervise(function, **settings)
    process = await started(supervisor)
    await here(process)
    return supervisor, process


async def refused(supervisor: Supervisor, why: type[Exception] = LaunchError) -> None:
    with pytest.raises(why, match="its supervisor was stopped" if why is LaunchError else None):
        await supervisor.start()


async def run_to_its_end(supervisor: Supervisor) -> ExitReport:
    process = await started(supervisor)
    await ended(process)
    return supervisor.reports[-1]


def hang_up_on(process: ModuleProcess) -> Callable[[], Awaitable[None]]:
    async def goodbye() -> None:
        process.rpc.close()

    return goodbye


async def test_a_living_process_is_not_started_twice(supervise: Supervise) -> None:
    supervisor = supervise()
    processes: list[ModuleProcess] = []

    async def start() -> None:
        processes.append(await supervisor.start())

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(start)
    assert len({process.pid for process in processes}) == 1
    assert supervisor.restarts == 0
    processes[0].rpc.close()


async def test_every_end_is_reported_with_its_evidence(supervise: Supervise) -> None:
    supervisor = supervise("segfaults")
    told: list[ExitReport] = []
    supervisor.on_exit(told.append)
    process = await started(supervisor)
    supervisor.call_in_flight = "execute"
    await ended(process)
    (report,) = supervisor.reports
    assert told == [report]
    assert report.reason is ExitReason.SIGNALLED
    assert report.signal_name == "SIGSEGV"
    assert report.stderr_tail[0] == "about to fault"
    assert report.describe().endswith("while running execute")
    assert supervisor.process is None


async def test_the_reason_recorded_before_a_kill_is_the_one_reported(supervise: Supervise) -> None:
    supervisor, process = await living(supervise)
    limit = LimitHit("runtime_max", 30, "31 s", "the host's clock")
    supervisor.end(ExitReason.TIMEOUT, limit)
    supervisor.end(ExitReason.PROTOCOL)
    await ended(process)
    (report,) = supervisor.reports
    assert (report.reason, report.limit, report.signal_name) == (ExitReason.TIMEOUT, limit, "SIGKILL")


async def test_a_reason_recorded_for_one_life_does_not_colour_the_next(supervise: Supervise) -> None:
    supervisor = supervise("exits_with_3")
    process = await started(supervisor)
    supervisor.end(ExitReason.TIMEOUT)
    await ended(process)
    supervisor.end(ExitReason.MEMORY)
    assert (await run_to_its_end(supervisor)).reason is ExitReason.EXITED


async def test_a_start_waits_for_a_process_that_is_being_ended(supervise: Supervise) -> None:
    supervisor = supervise()
    first = await started(supervisor)
    await here(first)
    supervisor.end(ExitReason.TIMEOUT)
    second = await started(supervisor)
    assert second.pid != first.pid
    assert supervisor.restarts == 1


async def test_each_death_delays_the_next_start_until_quarantine(supervise: Supervise) -> None:
    clock = ManualClock()
    policy = RestartPolicy(initial_delay=1, factor=3, max_delay=5, max_deaths=4, window=100)
    supervisor = supervise("exits_with_3", policy=policy, clock=clock)
    for _ in range(4):
        assert not supervisor.quarantined
        await run_to_its_end(supervisor)
    assert clock.slept == [1, 3]  # the first start again is at once
    assert supervisor.quarantined
    with pytest.raises(QuarantinedError, match="it ended 4 times within 100 s") as failed:
        await supervisor.start()
    assert failed.value.report is supervisor.reports[-1]
    assert supervisor.restarts == 3


async def test_a_launch_that_fails_is_a_death_with_the_step_as_its_reason(supervise: Supervise) -> None:
    supervisor = supervise("no_such_function", policy=RestartPolicy(max_deaths=2))
    for _ in range(2):
        with anyio.fail_after(PATIENCE), pytest.raises(LaunchError):
            await supervisor.start()
    assert [report.reason for report in supervisor.reports] == [ExitReason.START] * 2
    assert "no_such_function" in supervisor.reports[0].describe()
    assert supervisor.quarantined


async def test_a_process_ended_by_the_host_itself_is_no_death(supervise: Supervise) -> None:
    supervisor = supervise(policy=RestartPolicy(max_deaths=1))
    process = await started(supervisor)
    supervisor.end(ExitReason.KILLED_BY_HOST)
    await ended(process)
    assert supervisor.reports[0].reason is ExitReason.KILLED_BY_HOST
    assert not supervisor.quarantined


async def test_a_slow_end_after_a_goodbye_breaks_no_protocol(supervise: Supervise) -> None:
    supervisor, process = await living(supervise, "ignores_sigterm", goodbye_seconds=0.05, terminate_seconds=0.05)
    reported: list[ExitReport] = []

    async def report() -> None:
        reported.append(await supervisor.report(process, within=0))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:

            async def goodbye() -> None:
                tasks.start_soon(report)
                await anyio.sleep_forever()

            await supervisor.stop(goodbye)
    assert [one.reason for one in reported] == [ExitReason.KILLED_BY_HOST]


def no_answer(process: ModuleProcess) -> Callable[[], Awaitable[None]]:
    return anyio.sleep_forever


def nobody_there(process: ModuleProcess) -> Callable[[], Awaitable[None]]:
    async def goodbye() -> None:
        raise ConnectionError("nobody there")

    return goodbye


@pytest.mark.parametrize(
    ("function", "said", "reason", "end"),
    [
        ("waits", hang_up_on, ExitReason.EXITED, None),
        ("waits", no_answer, ExitReason.KILLED_BY_HOST, "SIGTERM"),
        ("waits", nobody_there, ExitReason.KILLED_BY_HOST, "SIGTERM"),
        ("ignores_sigterm", None, ExitReason.KILLED_BY_HOST, "SIGKILL"),
    ],
)
async def test_a_module_is_asked_to_end_then_told_then_killed(
    supervise: Supervise,
    function: str,
    said: Callable[[ModuleProcess], Callable[[], Awaitable[None]]] | None,
    reason: ExitReason,
    end: str | None,
) -> None:
    seconds = PATIENCE if said is hang_up_on else 0.05
    wait = 0.05 if function == "ignores_sigterm" else PATIENCE
    supervisor, process = await living(supervise, function, goodbye_seconds=seconds, terminate_seconds=wait)
    with anyio.fail_after(PATIENCE):
        await supervisor.stop(None if said is None else said(process))
    (report,) = supervisor.reports
    assert (report.reason, report.signal_name) == (reason, end)
    assert supervisor.process is None


async def test_a_stop_goes_on_when_its_caller_is_cancelled(supervise: Supervise) -> None:
    supervisor, process = await living(supervise)
    with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
        scope.cancel()
        await supervisor.stop(hang_up_on(process))
    assert supervisor.reports[0].code == 0


async def test_a_stop_whose_task_is_cancelled_natively_ends_the_process_too(supervise: Supervise) -> None:
    supervisor, process = await living(supervise, "ignores_sigterm")
    task = asyncio.get_running_loop().create_task(supervisor.stop())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with anyio.fail_after(PATIENCE):
        await asyncio.wait([task])
    assert (await ended(process)).signal_name == "SIGKILL"


async def test_a_stop_during_the_pause_before_a_restart_ends_the_pause(supervise: Supervise) -> None:
    clock = StoppedClock()
    supervisor = supervise("exits_with_3", clock=clock)
    for _ in range(2):  # the first start again is at once
        await run_to_its_end(supervisor)
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, supervisor)
            await anyio.wait_all_tasks_blocked()
            assert len(clock.slept) == 1
            await supervisor.stop()


@pytest.mark.usefixtures("cold_templates")
async def test_a_stop_during_a_launch_leaves_no_process(supervise: Supervise) -> None:
    supervisor, others = supervise(), children_of_this_process()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, supervisor)
            # A template of a few milliseconds' age has forked nothing yet.
            while not children_of_this_process() - others:
                await anyio.lowlevel.checkpoint()
            await supervisor.stop()
    assert supervisor.process is None


async def test_a_process_revoked_while_it_is_launched_is_ended(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    launcher = HeldLauncher(template_launcher)
    supervisor = Supervisor(launcher, with_entry(spec, "waits"))
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, supervisor, RevokedError)
            await launcher.has_launched.wait()
            supervisor.revoke()
            launcher.may_go_on.set()
    assert launcher.launched is not None
    assert (await ended(launcher.launched)).signal_name == "SIGKILL"
    assert [report.reason for report in supervisor.reports] == [ExitReason.KILLED_BY_HOST]
    await supervisor.stop()


async def test_a_process_that_was_revoked_is_handed_out_no_more(supervise: Supervise) -> None:
    supervisor = supervise()
    process = await started(supervisor)
    supervisor.revoke()
    await refused(supervisor, RevokedError)
    await ended(process)


async def test_a_stopped_supervisor_starts_nothing_more_and_can_be_stopped_again(supervise: Supervise) -> None:
    supervisor = supervise()
    await supervisor.stop()
    await supervisor.stop()
    await refused(supervisor)


async def test_a_process_that_closed_its_socket_is_reported_by_how_it_ended(supervise: Supervise) -> None:
    supervisor = supervise("exits_with_3")
    process = await started(supervisor)
    with anyio.fail_after(PATIENCE):
        report = await supervisor.report(process, within=PATIENCE)
        assert await supervisor.report(process) is report
    assert (report.reason, report.code) == (ExitReason.EXITED, 3)


async def test_a_process_that_closed_its_socket_and_lives_on_is_ended_for_it(supervise: Supervise) -> None:
    supervisor = supervise("waits_after_closing_its_socket")
    process = await started(supervisor)
    with anyio.fail_after(PATIENCE):
        report = await supervisor.report(process, within=0.05)
    assert report.reason is ExitReason.PROTOCOL


async def test_what_the_kernel_killed_slowly_did_not_break_the_protocol(supervise: Supervise) -> None:
    hit = LimitHit("memory_max", 1, "2", "cgroup memory")
    end = (ExitReason.MEMORY, hit)
    tree = SimpleNamespace(peak=lambda status: 2, end=lambda status: end, met=lambda used: ())
    supervisor = supervise("waits_after_closing_its_socket", limit_enforcer=SimpleNamespace(begin=lambda *_: tree))
    process = await started(supervisor)
    with anyio.fail_after(PATIENCE):
        report = await supervisor.report(process, within=0.05)
    assert (report.reason, report.limit) == (ExitReason.MEMORY, hit)


async def test_a_report_keeps_no_more_of_stderr_than_its_end(supervise: Supervise) -> None:
    supervisor = supervise("floods")
    report = await run_to_its_end(supervisor)
    assert report.stderr_tail[-1] == "last words"
    assert len(report.stderr_tail) <= 20
    assert max(map(len, report.stderr_tail)) <= 500
    assert report.code == os.EX_OK
