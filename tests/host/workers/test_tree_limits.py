"""A tree stays within its ration by the best means there is, and an end for that is reported as what it was."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from host.workers.altered import altered
from host.workers.conftest import Launch, by, groups_of_these_tests
from host.workers.levels import BWRAP, LANDLOCK, NONE, NS, NS_BY_EXEC, Levels, Way
from host.workers.waiting import PATIENCE, ended, here, said
from paddock.errors import LaunchError
from paddock.workers.exit_report import ExitReason, ExitStatus, LimitHit
from paddock.workers.limits.process_tree import ProcessTree
from paddock.workers.limits.tree_limits import LimitedTree, LimitEnforcer, TreeLimits
from paddock.workers.limits.watchdog import Watchdog
from paddock.workers.process import ModuleProcess
from paddock.workers.supervisor import Supervisor
from paddock_sandbox.cgroup import Cgroup, CgroupReadings, Controller
from paddock_sandbox.rlimits import Rlimit
from support.examples import repeating
from support.rows import each_row

MIB = 1 << 20
MOST = 64 * MIB
MORE = (("MIB", "256"),)

Supervise = Callable[..., Supervisor]
Requires = Callable[[Controller], None]

by_either_means = pytest.mark.parametrize("groups", [True, False], ids=["control group", "watchdog"])


@pytest.fixture
async def limit_enforcer() -> AsyncIterator[LimitEnforcer]:
    watchdog = Watchdog()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watchdog.run)
        yield LimitEnforcer(watchdog)
        tasks.cancel_scope.cancel()


@pytest.fixture
def requires(levels: Levels) -> Requires:
    """Skip a test where no control groups with a controller can be made."""

    def requires(controller: Controller) -> None:
        for problem in levels.groups.problems:
            if problem.controller == controller:
                pytest.skip(str(problem))

    return requires


@pytest.fixture
async def supervise(levels: Levels, way: Way, scratch: Path, limit_enforcer: LimitEnforcer) -> AsyncIterator[Supervise]:
    """Supervise a function of the test worker that has a ration; with control groups, unless it is said otherwise."""
    stops = []

    def supervise(function: str, tree_limits: TreeLimits, *, groups: bool = True, **parts: object) -> Supervisor:
        launcher = levels.launcher(way, groups=groups)
        spec = replace(levels.spec(way.level, scratch, function, **parts), tree_limits=tree_limits)  # type: ignore[arg-type]
        supervisor = Supervisor(launcher, spec, limit_enforcer=limit_enforcer, goodbye_seconds=0, terminate_seconds=0)
        stops.extend((supervisor.stop, launcher.aclose))
        return supervisor

    yield supervise
    for stop in stops:
        await stop()


async def begun(supervisor: Supervisor) -> ModuleProcess:
    """Return the process once it is where it waits to be told to begin, and tell it."""
    with anyio.fail_after(PATIENCE):
        process = await supervisor.start()
    await here(process)
    process.rpc.send(b".")
    return process


async def run_out(supervisor: Supervisor) -> ExitStatus:
    process = await begun(supervisor)
    status = await ended(process)
    process.rpc.close()
    return status


@by_either_means
async def test_a_worker_that_takes_too_much_memory_is_ended_for_it(
    supervise: Supervise, way: Way, requires: Requires, groups: bool
) -> None:
    if groups and way == BWRAP:
        pytest.skip("bwrap: in its namespaces no groups can be made")
    if groups:
        requires("memory")
    supervisor = supervise("eats_memory", TreeLimits(memory_max=MOST), groups=groups, environ=MORE)
    await run_out(supervisor)
    (report,) = supervisor.reports
    assert report.reason is ExitReason.MEMORY
    assert report.limit is not None
    assert (report.limit.name, report.limit.configured) == ("memory_max", "64 MiB")
    assert report.limit.observed.endswith("MiB") and float(report.limit.observed.split()[0]) > 60
    assert report.limit.mechanism == ("cgroup memory" if groups else "watchdog")


@pytest.mark.exhaustive("landlock")
@by(NS, LANDLOCK)
async def test_a_worker_within_its_memory_is_left_alone(supervise: Supervise, requires: Requires) -> None:
    requires("memory")
    supervisor = supervise("eats_memory", TreeLimits(memory_max=512 * MIB), environ=MORE)
    process = await begun(supervisor)
    assert await said(process) == b"full"
    process.rpc.close()
    await ended(process)
    assert supervisor.reports[0].reason is ExitReason.EXITED
    assert supervisor.reports[0].limit is None


@by(NS)
async def test_files_in_the_private_folder_are_memory(supervise: Supervise, requires: Requires) -> None:
    requires("memory")
    supervisor = supervise("fills_its_folder", TreeLimits(memory_max=MOST), environ=MORE, tmp_bytes=1 << 30)
    await run_out(supervisor)
    assert supervisor.reports[0].reason is ExitReason.MEMORY


@pytest.mark.exhaustive("landlock")
@by(NS, LANDLOCK)
@by_either_means
async def test_a_program_that_takes_too_much_memory_ends_alone(
    supervise: Supervise, requires: Requires, groups: bool
) -> None:
    if groups:
        requires("memory")
    for runs_programs in (True, False):
        limits = TreeLimits(memory_max=MOST, runs_programs=runs_programs)
        supervisor = supervise("eats_memory_by_its_child", limits, groups=groups, environ=MORE)
        status = await run_out(supervisor)
        report = supervisor.reports[0]
        if runs_programs or report.reason is ExitReason.EXITED:  # its parent may be quicker than a look
            assert (report.reason, status.code, report.limit) == (ExitReason.EXITED, 0, None)
        else:
            assert report.limit is not None and report.limit.name == "memory_max"


@by(NS)
@by_either_means
async def test_a_worker_is_not_ended_in_place_of_a_smaller_child(
    supervise: Supervise, requires: Requires, groups: bool
) -> None:
    environ = [("MIB", "40")]
    if groups:
        requires("memory")
        environ += [("MARKED", "1")]
    limits = TreeLimits(memory_max=MOST, runs_programs=True)
    supervisor = supervise("eats_more_than_its_children", limits, groups=groups, environ=environ)
    process = await begun(supervisor)
    assert await said(process) == b"0009"
    assert [supervisor.limits_met() for _ in range(2)] == [("memory_max",), ()]
    process.rpc.close()
    assert (await ended(process)).code == 0
    assert supervisor.reports[0].reason is ExitReason.EXITED


@pytest.mark.exhaustive("landlock")
@by(NS, LANDLOCK)
@pytest.mark.parametrize("most", [128, *repeating(512)])
async def test_a_storm_of_forks_is_ended_within_a_second(supervise: Supervise, way: Way, most: int) -> None:
    limits = TreeLimits(tasks_max=most, watches_tasks=way == LANDLOCK)
    rlimits = (Rlimit("NPROC", most + 2),) if way == NS else ()
    supervisor = supervise("storms", limits, groups=False, rlimits=rlimits)
    share = max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))  # of what else wants the processors
    process = await begun(supervisor)
    tree = ProcessTree(process.init_pid)
    with anyio.fail_after(PATIENCE):
        while (reading := tree.read()) is not None and reading.tasks < most - 12:
            await anyio.sleep(0.01)
    full = time.monotonic()
    if way == NS:  # the kernel refuses more, and the storm goes on
        supervisor.end(ExitReason.KILLED_BY_HOST)
    status = await ended(process)
    took = time.monotonic() - full
    process.rpc.close()
    assert status.left_behind == 0
    assert took < share


@by(NS, NS_BY_EXEC, LANDLOCK, NONE)
async def test_a_worker_has_no_more_children_than_its_control_group_allows(
    supervise: Supervise, requires: Requires
) -> None:
    requires("pids")
    supervisor = supervise("forks", TreeLimits(tasks_max=8), environ=(("CHILDREN", "20"),))
    process = await begun(supervisor)
    assert await said(process) == b"0007"  # it is itself the eighth
    process.rpc.close()
    assert (await ended(process)).code == 0


@by(LANDLOCK, NONE)
async def test_without_control_groups_too_many_children_are_the_end(supervise: Supervise) -> None:
    tree_limits = TreeLimits(tasks_max=8, watches_tasks=True)
    supervisor = supervise("forks", tree_limits, groups=False, environ=(("CHILDREN", "20"),))
    await run_out(supervisor)
    (report,) = supervisor.reports
    assert report.reason is ExitReason.TASKS
    assert report.limit == LimitHit("tasks_max", 8, report.limit.observed if report.limit else "", "watchdog")


@by(NS, BWRAP)
async def test_without_control_groups_a_namespace_of_users_bounds_the_children(supervise: Supervise) -> None:
    supervisor = supervise(
        "forks", TreeLimits(), groups=False, environ=(("CHILDREN", "20"),), rlimits=(Rlimit("NPROC", 9),)
    )
    process = await begun(supervisor)
    born = int(await said(process))
    assert 0 < born < 9
    process.rpc.close()
    assert (await ended(process)).code == 0


@by(NS, LANDLOCK)
async def test_all_limits_are_in_the_group_before_the_entry_runs(supervise: Supervise, levels: Levels) -> None:
    asked: list[dict[str, object]] = []
    supervisor = supervise("waits", TreeLimits(memory_max=MOST, tasks_max=8, cpu_quota=0.5))
    limit = Cgroup.limit

    def note(group: Cgroup, **limits: object) -> None:
        asked.append(limits)
        limit(group, **limits)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cgroup, "limit", note)
        with anyio.fail_after(PATIENCE):
            process = await supervisor.start()
    have = levels.groups.controllers
    assert asked == [
        {
            "memory_max": MOST if "memory" in have else None,
            "tasks_max": 8 if "pids" in have else None,
            "cpu_quota": 0.5 if "cpu" in have else None,
        }
    ]
    process.rpc.close()
    await ended(process)


@by(NS, LANDLOCK)
async def test_a_limit_that_cannot_be_set_is_a_start_that_failed(supervise: Supervise, requires: Requires) -> None:
    requires("memory")
    supervisor = supervise("waits", TreeLimits(memory_max=MOST))

    def refuse(group: Cgroup, **limits: object) -> None:
        raise OSError(errno.EXDEV, "injected")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cgroup, "limit", refuse)
        with anyio.fail_after(PATIENCE), pytest.raises(LaunchError) as failed:
            await supervisor.start()
    assert (failed.value.step, failed.value.errno) == ("limits", errno.EXDEV)
    with anyio.fail_after(PATIENCE):
        while not supervisor.reports:
            await anyio.sleep(0.01)
    assert supervisor.reports[0].reason is ExitReason.START
    assert "injected" in supervisor.reports[0].describe()


@by(NS, NS_BY_EXEC, LANDLOCK)
async def test_a_control_group_is_removed_however_the_worker_ended(
    start: Launch, levels: Levels, requires: Requires
) -> None:
    requires("memory")
    for function in ("returns", "segfaults", "no_such_function"):
        seen: set[str] = set()
        try:
            process = await start(function)
            seen = {part.directory for part in process.cgroup.parts} if process.cgroup else set()
            await ended(process)
        except LaunchError as error:
            assert (function, error.step) == ("no_such_function", "runtime")
        assert bool(seen) is (function != "no_such_function")
        with anyio.fail_after(PATIENCE):
            while any(map(os.path.exists, seen)):
                await anyio.sleep(0.01)
    await start.end()
    with anyio.fail_after(PATIENCE):
        while groups_of_these_tests(levels.groups):
            await anyio.sleep(0.01)


@by(NS, LANDLOCK)
async def test_every_process_of_a_tree_but_its_init_is_in_its_control_group(start: Launch, requires: Requires) -> None:
    requires("memory")
    process = await start("forks", environ=(("CHILDREN", "3"),))
    await here(process)
    process.rpc.send(b".")
    assert await said(process) == b"0003"
    assert process.cgroup is not None
    assert process.pid in process.cgroup.processes()
    assert process.init_pid not in process.cgroup.processes()
    assert len(process.cgroup.processes()) == 4


@by(NS)
async def test_a_worker_that_could_not_get_into_its_control_group_does_not_start(
    start: Launch, levels: Levels, tmp_path: Path, requires: Requires
) -> None:
    requires("memory")
    # Where it is opened, by whoever makes the group.
    code = """
from paddock_sandbox.cgroup import group
def doors(self):
    raise OSError(18, "injected")
group.Cgroup.doors = doors
"""
    error = await start.refused(runtime=altered(levels.runtime, tmp_path, {"lockdown": code}))
    assert (error.step, error.errno) == ("namespaces", 18)


READINGS = CgroupReadings(memory_peak=MOST, memory_kills=2)


@each_row(
    ("status", "reason"),
    [
        (ExitStatus(None, signal.SIGKILL, 1.0, used=READINGS), ExitReason.MEMORY),
        (ExitStatus(None, None, 1.0, used=READINGS), ExitReason.MEMORY),  # its init was the one
        (ExitStatus(None, signal.SIGSEGV, 1.0, used=READINGS), None),
        (ExitStatus(0, None, 1.0, used=READINGS), None),
        (ExitStatus(1, None, 1.0, used=READINGS), None),
        (ExitStatus(None, signal.SIGKILL, 1.0, used=replace(READINGS, memory_kills=0)), None),
        (ExitStatus(None, signal.SIGKILL, 1.0, used=replace(READINGS, memory_kills=None)), None),
        (ExitStatus(None, signal.SIGKILL, 1.0), None),
    ],
)
def test_an_end_is_for_memory_when_the_kernel_killed_for_it(status: ExitStatus, reason: ExitReason | None) -> None:
    found = LimitedTree(None, TreeLimits(memory_max=MOST)).end(status)
    assert (found[0] if found else None) is reason
    if found:
        assert found[1] == LimitHit("memory_max", 64 << 20, "64 MiB", "cgroup memory")


def test_a_peak_that_the_kernel_does_not_tell_is_left_out() -> None:
    status = ExitStatus(None, signal.SIGKILL, 1.0, used=CgroupReadings(memory_kills=1))
    found = LimitedTree(None, TreeLimits(memory_max=MOST)).end(status)
    assert found is not None and found[1].observed == ""


async def test_what_is_not_limited_is_not_watched() -> None:
    watched: list[int] = []
    watchdog = Watchdog(tree_of=watched.append)  # type: ignore[arg-type, return-value]
    LimitEnforcer(watchdog).begin(
        SimpleNamespace(init_pid=0, pid=0, cgroup=None), TreeLimits(tasks_max=8), lambda *_: None
    )
    assert watched == []
