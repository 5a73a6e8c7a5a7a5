"""At every level a worker starts, works, ends and is refused what its level promises, or says why it did not start."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from host.workers.altered import altered
from host.workers.conftest import Launch, by
from host.workers.levels import BWRAP, EVERY_WAY, LANDLOCK, LANDLOCK_BY_EXEC, NS, NS_BY_EXEC, Levels, Way
from host.workers.waiting import PATIENCE, answer, ended, fifo, here, nobody_holds
from paddock.errors import LaunchError
from paddock.workers.process import ModuleProcess
from paddock.workers.runtime import base_interpreter
from paddock_sandbox import self_check
from paddock_sandbox.profile import Mount, SandboxProfile
from paddock_sandbox.rlimits import Rlimit
from support.children import children_of_this_process

_FEW = 10

STEPS = (
    *("one thread", "resource limits", "capabilities", "no_new_privs", "Landlock"),
    *("dumpable", "die with the parent", "seccomp"),
)
STEPS_OF_NONE = ("no_new_privs", "no core dumps", "die with the parent")


only_shut_in = by(NS, BWRAP, LANDLOCK)


def shared(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


async def outcomes(start: Launch, *acts: tuple[object, ...], **parts: Any) -> list[str]:
    """Return what comes of acts in a worker."""
    environ = (("ACTS", json.dumps(acts)), *parts.pop("environ", ()))
    process = await start("tries", environ=environ, **parts)
    told: list[str] = json.loads(await answer(process))
    return told


@by(*EVERY_WAY)
async def test_a_worker_took_the_steps_of_its_level_before_its_entry(start: Launch, way: Way) -> None:
    ready = (await start()).ready
    assert ready.lockdown.level == way.level
    assert ready.lockdown.steps == (STEPS_OF_NONE if way.level == "none" else STEPS)
    assert (ready.lockdown.protections == ()) is (way.level == "none")


@only_shut_in
async def test_a_worker_with_few_files_starts_beside_descriptors_in_flight(start: Launch) -> None:
    # The kernel holds all descriptors of a user that nobody has received yet against the limit of whoever sends more.
    sender, receiver = socket.socketpair()
    with sender, receiver:
        for _ in range(10):
            socket.send_fds(sender, [b"x"], [sender.fileno()] * 10)
        assert (await start(rlimits=(Rlimit("NOFILE", 24),))).init_pid > 0


@only_shut_in
async def test_a_worker_tried_to_get_out_and_was_refused(start: Launch, way: Way) -> None:
    ready = (await start()).ready
    assert len(ready.verdicts) > 25
    assert self_check.breaches(SandboxProfile(way.level), ready.verdicts) == ()


async def test_only_with_namespaces_a_worker_has_processes_of_its_own(start: Launch, way: Way) -> None:
    # One that has ended before the host looks has no number any more.
    process = await start("tries_and_waits", environ=(("ACTS", '[["pids"]]'),))
    (pids,) = json.loads(await answer(process))
    inside = tuple(map(int, pids.split()))
    outside = process.pid, process.init_pid
    if way.level in ("ns", "bwrap"):
        worker, init = inside
        assert init == 1 and worker < _FEW  # the init may have had another child before: to bound what they share
        assert 1 not in outside
    else:
        assert inside == outside


async def test_a_worker_has_what_was_granted_and_nothing_beside_it(start: Launch, way: Way, tmp_path: Path) -> None:
    read_only = "EACCES" if way.level == "landlock" else "EROFS"
    absent = "EACCES" if way.level == "landlock" else "ENOENT"
    for writable in (False, True):
        folder = shared(tmp_path, f"writable {writable}")
        for name in ("granted", "secret"):
            (folder / name).mkdir()
            (folder / name / "file").write_text(name)
        granted, secret = str(folder / "granted"), str(folder / "secret")
        told = await outcomes(
            start,
            ("read", f"{granted}/file"),
            ("write", f"{granted}/new"),
            ("read", f"{secret}/file"),
            ("write", f"{secret}/new"),
            ("list", f"{granted}/../secret"),
            mounts=[Mount(granted, granted, writable)],
        )
        if way.level == "none":
            assert told == ["granted", "ok", "secret", "ok", "file,new"]
            continue
        assert told == ["granted", "ok" if writable else read_only, absent, absent, absent]
        assert (folder / "granted" / "new").exists() is writable
        if writable:
            owner = (folder / "granted" / "new").stat()
            assert (owner.st_uid, owner.st_gid) == (os.getuid(), os.getgid())


async def test_a_worker_starts_in_a_private_folder_it_can_write_to(start: Launch, way: Way, scratch: Path) -> None:
    home = {"ns": "/scratch", "bwrap": "/tmp"}.get(way.level, str(scratch))
    told = await outcomes(start, ("folder",), ("write", f"{home}/file"), ("read", f"{home}/file"))
    assert told == [home, "ok", "written"]


@by(NS, BWRAP)
async def test_the_private_folder_is_as_large_as_it_says(start: Launch, way: Way) -> None:
    home = {"ns": "/scratch", "bwrap": "/tmp"}[way.level]
    told = await outcomes(
        start,
        ("fill", f"{home}/a", 1 << 19),
        ("fill", "/dev/shm/b", 1 << 20),
        ("fill", f"{home}/c", 1),
        tmp_bytes=1 << 20,
    )
    assert told == ["ok", "ENOSPC", "ENOSPC"]


async def test_a_worker_has_exactly_the_given_environment_and_descriptors(
    start: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDOCK_TEST_SECRET", "hunter2")
    with (tmp_path / "canary").open("w") as canary:
        os.set_inheritable(canary.fileno(), True)
        environment, descriptors = await outcomes(start, ("environment",), ("descriptors",))
    assert {*json.loads(environment)} - {"LC_CTYPE"} == {"HOME", "ACTS"}
    assert descriptors == "4"  # input, output, errors and the host's socket


@only_shut_in
async def test_a_worker_cannot_reach_the_host_or_its_network(start: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), 1).close()
        program = str(base_interpreter())  # which is in its root as well
        told = await outcomes(start, ("connect", port), ("signal", os.getpid(), 0), ("execute", program))
    assert told[0] == "EACCES"
    assert told[1] in ("EPERM", "ESRCH")
    assert told[2] == "ENOENT"


@only_shut_in
async def test_a_worker_can_neither_stop_nor_kill_its_init(start: Launch) -> None:
    process = await start("tries_to_harm_its_init")
    assert json.loads(await answer(process)) == ["EPERM", "EPERM"]
    assert (await ended(process)).code == 0


@pytest.mark.exhaustive("exec", "none", "landlock")
@by(*EVERY_WAY)
async def test_a_worker_can_import_the_whole_runtime(start: Launch) -> None:
    names = ("paddock_sdk.worker.main", "pydantic", "typing_extensions", "annotated_types", "amplifier_core.models")
    assert await outcomes(start, *(("import", name) for name in names)) == ["ok"] * len(names)


async def test_a_limit_of_the_profile_is_in_force_except_without_isolation(start: Launch, way: Way) -> None:
    process = await start("tries", environ=(("ACTS", '[["files"]]'),), rlimits=(Rlimit("NOFILE", 40),))
    (files,) = json.loads(await answer(process))
    assert (files == "40") is (way.level != "none")


async def test_an_end_is_reported_as_it_was(start: Launch) -> None:
    ends = {"exits_with_3": (3, None), "segfaults": (None, "SIGSEGV"), "aborts": (None, "SIGABRT")}
    for function, end in ends.items():
        status = await ended(await start(function))
        assert (status.code, status.signal_name, status.left_behind) == (*end, 0), function
        assert status.peak_memory_bytes and status.user_time is not None


async def daemons_of(start: Launch, folder: Path, **parts: object) -> ModuleProcess:
    """Return a worker that has hidden three processes, all of which hold a fifo in the folder open."""
    process = await start(
        "leaves_daemons",
        environ=(("FIFO", str(folder / "fifo")),),
        mounts=[Mount(str(folder), str(folder), writable=True)],
        **parts,
    )
    await here(process)
    return process


@pytest.mark.exhaustive("landlock")
async def test_a_whole_tree_dies_at_once(start: Launch, tmp_path: Path) -> None:
    for end in ("stop", "abandon", "rpc"):
        folder = shared(tmp_path, end)
        with fifo(folder / "fifo") as held:
            process = await daemons_of(start, folder)
            with anyio.fail_after(PATIENCE):  # none of its processes ends by itself
                if end == "stop":
                    await process.stop(0)
                elif end == "abandon":
                    await process.abandon()
                else:
                    process.rpc.close()  # it ends by itself, and leaves its daemons behind
                await nobody_holds(held)
            assert (await ended(process)).left_behind == 0, end


async def test_a_tree_whose_worker_or_init_is_killed_by_a_stranger_is_dead_too(
    start: Launch, way: Way, levels: Levels, tmp_path: Path
) -> None:
    # With neither a namespace nor a control group, what hid from a killed init lives on.
    can_be_found = way.level in ("ns", "bwrap") or levels.groups.controllers
    for victim in ("worker", "init") if can_be_found else ("worker",):
        folder = shared(tmp_path, victim)
        with fifo(folder / "fifo") as held:
            process = await daemons_of(start, folder)
            os.kill(process.pid if victim == "worker" else process.init_pid, 9)
            await nobody_holds(held)
            status = await ended(process)
        assert status.signal_name == ("SIGKILL" if victim == "worker" else None)


# As for a tree that forks faster than signals end it.
_SIGNALS_THAT_MISS = """
import os
from paddock_sandbox import prctl
adopt_orphans = prctl.become_child_subreaper
def become_child_subreaper():
    init, kill = os.getpid(), os.kill
    os.kill = lambda *signalled: None if os.getpid() == init else kill(*signalled)
    os.killpg = lambda *signalled: None
    adopt_orphans()
prctl.become_child_subreaper = become_child_subreaper
"""
# The same, until this path exists.
_SIGNALS_THAT_MISS_AT_FIRST = """
import os
from paddock_sandbox import prctl
adopt_orphans = prctl.become_child_subreaper
def become_child_subreaper():
    init, kill, killpg = os.getpid(), os.kill, os.killpg
    os.kill = lambda *signalled: kill(*signalled) if os.getpid() != init or os.path.exists({path!r}) else None
    os.killpg = lambda *signalled: killpg(*signalled) if os.path.exists({path!r}) else None
    adopt_orphans()
prctl.become_child_subreaper = become_child_subreaper
"""
_A_GROUP_THAT_IS_NOT_SEEN = """
from paddock_sandbox.cgroup import Cgroup
def kill(self, within=1.0):
    raise OSError(13, "injected")
Cgroup.kill = kill
"""


@pytest.mark.exhaustive("-host")
@pytest.mark.parametrize("who", ["init", "host"])
@by(LANDLOCK)
async def test_a_tree_that_signals_do_not_end_is_ended_by_its_control_group(
    start: Launch, levels: Levels, tmp_path: Path, who: str
) -> None:
    if not levels.groups.controllers:
        pytest.skip("; ".join(map(str, levels.groups.problems)))
    code = _SIGNALS_THAT_MISS if who == "init" else _SIGNALS_THAT_MISS + _A_GROUP_THAT_IS_NOT_SEEN
    runtime = altered(levels.runtime, tmp_path, {"lockdown": code})
    for end in ("kill", "abandon") if who == "init" else ("kill",):
        folder = shared(tmp_path, end)
        with fifo(folder / "fifo") as held:
            process = await daemons_of(start, folder, runtime=runtime)
            if end == "kill":
                process.kill()
            else:  # as when the host is gone
                await process.abandon()
            await nobody_holds(held)
            assert bool((await ended(process)).left_behind) is (who == "host")


@by(LANDLOCK)
async def test_without_a_control_group_an_init_goes_on_until_its_tree_has_ended(
    levels: Levels, way: Way, scratch: Path, tmp_path: Path
) -> None:
    now = tmp_path / "now"
    runtime = altered(levels.runtime, tmp_path, {"lockdown": _SIGNALS_THAT_MISS_AT_FIRST.format(path=str(now))})
    start = Launch(levels.launcher(way, groups=False), partial(levels.spec, way.level, scratch))
    folder = shared(tmp_path, "folder")
    with fifo(folder / "fifo") as held:
        process = await daemons_of(start, folder, runtime=runtime)
        process.kill()
        assert (await ended(process)).left_behind
        now.touch()
        await nobody_holds(held)
    await start.end()


@pytest.mark.parametrize("way", [NS, pytest.param(LANDLOCK, marks=pytest.mark.exhaustive)], ids=str, indirect=True)
@pytest.mark.usefixtures("cold_templates")
async def test_thirty_workers_can_be_started_at_once(start: Launch, way: Way) -> None:
    processes: list[ModuleProcess] = []
    before = children_of_this_process()  # what other tests of this process keep open

    async def launch() -> None:
        processes.append(await start())

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(launch)
    assert len({process.pid for process in processes}) == 30
    assert len(children_of_this_process() - before) == 1, "more than the template"
    for process in processes:
        await here(process)


def with_changes(levels: Levels, folder: Path, changes: Mapping[str, str]) -> dict[str, Any]:
    """Return the parts of a spec whose worker runs the sandbox with code added at the end of its modules."""
    runtime = altered(levels.runtime, folder, changes)
    seen = str(dict(runtime.packages)["paddock_sandbox"])
    return {"runtime": runtime, "mounts": [Mount(seen, seen, mappable=True)]}


@only_shut_in
@pytest.mark.parametrize("kind", ["missing", "a link"])
async def test_a_granted_path_that_is_not_what_it_was_is_named(
    start: Launch, way: Way, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "granted"
    if kind == "a link":
        path.symlink_to("/etc")
    error = await start.refused(mounts=[Mount(str(path), str(path))])
    assert str(path) in str(error)
    assert error.step == ("Landlock" if way.level == "landlock" else f"open {path}")
    assert error.errno == (2 if kind == "missing" else 40)


@by(NS, NS_BY_EXEC)
async def test_more_paths_than_can_be_handed_over_are_refused(start: Launch) -> None:
    error = await start.refused(mounts=[Mount("/etc", f"/x/{n}") for n in range(300)])
    assert error.step == "namespaces"
    assert "no more than 246 paths can be made visible" in error.message


@by(NS)
async def test_a_granted_path_that_cannot_be_mounted_where_it_should_is_named(start: Launch) -> None:
    error = await start.refused(mounts=[Mount("/etc", "/etc/passwd")])
    assert error.step == "mount /etc/passwd"


# The function of the sandbox that takes a step; EXDEV is what nothing else fails with.
_STEPS = {
    "capabilities": ("capabilities", "drop_all"),
    "no_new_privs": ("prctl", "give_up_new_privileges"),
    "Landlock": ("landlock", "restrict"),
    "dumpable": ("prctl", "set_dumpable"),
    "die with the parent": ("lockdown", "_die_with"),
    "seccomp": ("seccomp", "install"),
    "one thread": ("lockdown", "_require_one_thread"),
    "resource limits": ("rlimits", "apply"),
    "close descriptors": ("descriptors", "close_all_but"),
    "self-check": ("self_check", "run"),
}
# A worker's environment says what its sandbox gets wrong. Not on the way to the worker: what is done there is as it is.
_FAULT = """
def _fault():
    import sys
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name not in ("enter_sandbox_and_run", "_run_init"):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name == "_run_init":
        return ""
    return frame.f_locals["particulars"]["environ"].get("FAULT", "")
"""
_AT_FAULT = """
_real_{function} = {function}
def {function}(*arguments, **named):
    fault = _fault()
    if fault == "fail at {step}":
        raise OSError(18, "injected")
    if fault == "do nothing at {step}":
        return frozenset()
    return _real_{function}(*arguments, **named)
"""
_LIES = {
    "lockdown": """
_honest_apply = apply
def apply(profile, **how):
    report = _honest_apply(profile, **how)
    return LockdownReport("none", report.steps, report.protections) if _fault() == "name another level" else report
""",
    "self_check": """
_honest_run = run
def run(**named):
    verdicts = _honest_run(**named)
    if _fault() == "leave out an act":
        del verdicts["ptrace"]
    return verdicts
""",
}


@pytest.fixture(scope="module")
def faulty(levels: Levels, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The parts of a spec whose worker gets wrong what its environment says."""
    changes = dict.fromkeys((module for module, _ in _STEPS.values()), _FAULT)
    for step, (module, function) in _STEPS.items():
        changes[module] += _AT_FAULT.format(function=function, step=step)
    for module, lie in _LIES.items():
        changes[module] += lie
    return with_changes(levels, tmp_path_factory.mktemp("faulty"), changes)


def at_fault(faulty: Mapping[str, Any], fault: str) -> dict[str, Any]:
    return {**faulty, "environ": [("FAULT", fault)]}


@pytest.mark.parametrize(
    ("way", "steps"), [(NS, [*_STEPS]), (NS_BY_EXEC, ["seccomp"]), (LANDLOCK_BY_EXEC, ["Landlock"])], indirect=["way"]
)
async def test_a_step_that_fails_is_named_and_the_entry_is_not_reached(
    start: Launch, faulty: Mapping[str, Any], steps: Sequence[str]
) -> None:
    for step in steps:
        error = await start.refused(**at_fault(faulty, f"fail at {step}"))
        assert (error.step, error.errno) == (step, 18)
        assert "injected" in error.message


@pytest.mark.exhaustive("attach-attach", "scratch")
@pytest.mark.parametrize(
    ("step", "method"),
    [
        ("new root", "__init__"),
        ("mount /scratch", "attach_scratch"),
        ("attach", "attach"),
        ("pivot_root", "enter"),
    ],
)
@by(NS)
async def test_a_part_of_the_root_that_cannot_be_made_is_named(
    start: Launch, levels: Levels, tmp_path: Path, step: str, method: str
) -> None:
    code = f"""
def _refuse(*arguments, **named):
    raise StepError({step!r}, 18, "injected")
NewRoot.{method} = _refuse
"""
    error = await start.refused(**with_changes(levels, tmp_path, {"mounts": code}))
    assert (error.step, error.errno) == (step, 18)


# What a lockdown that does not hold looks like: each part of it says that all is well, and does nothing.
_HOLLOW = {
    "seccomp": {"memfd", "socket inet", "socket unix"},
    "Landlock": {"read the kernel's settings", "list devices"},
    "capabilities": {"more privileges"},
}


@pytest.mark.exhaustive("landlock")
@only_shut_in
async def test_a_lockdown_that_does_not_hold_is_no_lockdown(start: Launch, way: Way, faulty: Mapping[str, Any]) -> None:
    for step, breached in _HOLLOW.items():
        if step == "Landlock" and way.level != "landlock":
            continue  # the mounts refuse it all by themselves; this layer's refusals cannot be told from theirs
        if step == "capabilities" and way.level != "ns" and os.geteuid() != 0:
            continue  # an ordinary user has none there
        error = await start.refused(**at_fault(faulty, f"do nothing at {step}"))
        assert error.step == "self-check"
        assert breached <= promises_broken(error, way)


@pytest.mark.exhaustive("landlock")
@only_shut_in
async def test_a_worker_that_has_other_descriptors_is_not_locked_down(
    start: Launch, way: Way, levels: Levels, tmp_path: Path
) -> None:
    # Where none are closed on the way to the worker either.
    code = "def close_all_but(*arguments):\n    pass\n"
    error = await start.refused(**with_changes(levels, tmp_path, {"descriptors": code}))
    assert error.step == "self-check"
    assert "other descriptors" in promises_broken(error, way)


def promises_broken(error: LaunchError, way: Way) -> set[str]:
    assert f"not as isolation {way.level} promises: " in error.message
    return {*error.message.partition("promises: ")[2].split(", ")}


@pytest.mark.exhaustive("landlock")
@only_shut_in
async def test_a_worker_that_lies_about_its_level_or_acts_is_not_believed(
    start: Launch, faulty: Mapping[str, Any]
) -> None:
    error = await start.refused(**at_fault(faulty, "name another level"))
    assert error.step == "self-check"
    assert "its level, which is none" in error.message
    error = await start.refused(**at_fault(faulty, "leave out an act"))
    assert (error.step, error.message.rpartition(": ")[2]) == ("self-check", "ptrace")


@only_shut_in
async def test_an_entry_that_cannot_be_imported_is_a_step_too(start: Launch) -> None:
    error = await start.refused("there_is_no_such_function")
    assert error.step == "runtime"
    assert "there_is_no_such_function" in error.message
