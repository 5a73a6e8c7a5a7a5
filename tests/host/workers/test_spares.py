"""The next worker waits where nobody sees it, is the one that is asked for next, and outlives nobody."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest

from host.workers.conftest import Launch, by, groups_of_these_tests
from host.workers.levels import NS, Levels
from host.workers.waiting import PATIENCE, answer, children_of, ended, gone, here, pidfd_of
from paddock.errors import LaunchError
from paddock.workers.process import ModuleProcess
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import Mount
from support.children import children_of_this_process

pytestmark = [pytest.mark.usefixtures("cold_templates"), by(NS)]


def template() -> int:
    """Return the youngest child; older ones belong to other tests of this process."""
    return max(children_of_this_process(), key=lambda pid: psutil.Process(pid).create_time())


async def spare_beside(*processes: ModuleProcess) -> int:
    """Return the init of the worker that is ready and that nobody has asked for."""
    return await spare_of(template(), {process.init_pid for process in processes})


async def spare_of(template: int, born: set[int]) -> int:
    with anyio.fail_after(PATIENCE):
        while True:
            for pid in {*children_of(template)} - born:
                try:
                    if _is_made(pid):
                        return pid
                except FileNotFoundError:
                    pass  # it only lent its namespace
            await anyio.sleep(0.002)


def _is_made(init: int) -> bool:
    """Return whether a spare's init has given up its powers: its one child is the worker, whose line it has closed."""
    status = Path(f"/proc/{init}/status").read_text()
    return bool(re.search(r"^CapPrm:\s*0+$", status, re.MULTILINE)) and bool(children_of(init))


async def is_gone(pid: int) -> None:
    try:
        with pidfd_of(pid) as pidfd:
            await gone(pidfd)
    except ProcessLookupError:
        pass


async def test_the_worker_that_is_ready_is_the_next_that_is_asked_for(start: Launch) -> None:
    first = await start()
    spare = await spare_beside(first)
    (worker,) = children_of(spare)
    second = await start()
    assert (second.init_pid, second.pid) == (spare, worker)
    await here(second)


async def test_each_that_is_asked_for_is_followed_by_another(start: Launch) -> None:
    processes = [await start()]
    for _ in range(4):
        spare = await spare_beside(*processes)
        processes.append(await start())
        assert processes[-1].init_pid == spare


async def test_no_more_than_one_is_kept_ready(start: Launch) -> None:
    processes = [await start() for _ in range(3)]
    spare = await spare_beside(*processes)
    await anyio.sleep(0.1)  # ten times what it waits before it makes one
    assert {*children_of(template())} == {spare, *(process.init_pid for process in processes)}


async def test_none_is_made_before_somebody_wants_one(start: Launch, levels: Levels, scratch: Path) -> None:
    process = await Launch(start.launcher, partial(levels.spec, "none", scratch))()
    await anyio.sleep(0.1)
    assert children_of(template()) == [process.init_pid]
    await process.stop(0)
    process.rpc.close()


async def test_a_spare_has_nothing_of_any_module(start: Launch, tmp_path: Path) -> None:
    granted = tmp_path / "granted"
    granted.mkdir()
    first = await start(mounts=[Mount(str(granted), str(granted), writable=True)])
    spare = await spare_beside(first)
    if not os.access(f"/proc/{spare}/fd", os.R_OK):
        pytest.skip(f"user {os.geteuid()} may not look at what a worker has open: /proc/{spare}/fd is closed to it")
    inherited = {os.readlink(f"/proc/{template()}/fd/{fd}") for fd in range(3)}
    for pid in (spare, *children_of(spare)):
        # Besides its line and its root, one that was born a moment ago has what it mounts.
        with anyio.fail_after(PATIENCE):
            while [path.partition(":")[0] for path in files_of(pid) - inherited - {"/"}] != ["socket"]:
                await anyio.sleep(0.002)
        assert str(granted) not in mounts_of(pid)


def mounts_of(pid: int) -> str:
    return Path(f"/proc/{pid}/mountinfo").read_text()


def files_of(pid: int) -> set[str]:
    """Return what a process has open."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


@pytest.mark.parametrize("victim", ["init", "worker"])
async def test_a_killed_spare_is_replaced_by_the_next_launch(start: Launch, victim: str) -> None:
    first = await start()
    spare = await spare_beside(first)
    (worker,) = children_of(spare)
    killed = spare if victim == "init" else worker
    with pidfd_of(killed) as pidfd:
        os.kill(killed, signal.SIGKILL)
        await gone(pidfd)
    second = await start()
    assert second.init_pid != spare
    await here(second)
    await is_gone(spare)


async def test_a_spare_ends_with_its_template_and_leaves_no_control_group(levels: Levels, start: Launch) -> None:
    first = await start()
    spare = await spare_beside(first)
    with pidfd_of(spare) as pidfd:
        await start.launcher.aclose()
        await gone(pidfd)
    assert groups_of_these_tests(levels.groups) == folders_of(first)


@pytest.mark.parametrize("next_act", ["launch", "close"])
async def test_a_spare_ends_with_its_killed_template_and_its_group_is_removed(
    levels: Levels, start: Launch, next_act: str
) -> None:
    first = await start()
    spare = await spare_beside(first)
    (worker,) = children_of(spare)
    with pidfd_of(spare) as init_pidfd, pidfd_of(worker) as worker_pidfd:
        os.kill(template(), signal.SIGKILL)
        await gone(init_pidfd)
        await gone(worker_pidfd)
    left = groups_of_these_tests(levels.groups) - folders_of(first)
    assert bool(left) == bool(levels.groups.places)
    if next_act == "launch":
        await here(await start())
    else:
        await start.launcher.aclose()
    await these_are_gone(left)
    await here(first)


async def test_a_workers_usage_is_known_after_its_end(
    levels: Levels, start: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "memory" not in levels.groups.controllers:
        pytest.skip(f"no control group counts memory here: {levels.groups.problems}")
    is_tidy, remove = threading.Event(), CgroupHome.remove_empty

    def removed(*args: Any) -> bool:
        try:
            return remove(*args)
        finally:
            is_tidy.set()

    monkeypatch.setattr(CgroupHome, "remove_empty", removed)
    first = await start()
    try:
        stdout = os.open(f"/proc/{first.pid}/fd/1", os.O_WRONLY)
    except PermissionError as error:
        pytest.skip(f"user {os.geteuid()} may not open what a worker has open: {error}")
    try:
        with pidfd_of(first.init_pid) as pidfd:
            first.kill()
            await gone(pidfd)  # its group is empty, and is read when the last of its output has come
        os.kill(template(), signal.SIGKILL)
        await start.launcher.aclose()
        with anyio.fail_after(PATIENCE):
            assert await anyio.to_thread.run_sync(is_tidy.wait, PATIENCE)
    finally:
        os.close(stdout)
    used = (await ended(first)).used
    assert used is not None
    assert used.memory_peak


def folders_of(process: ModuleProcess) -> set[str]:
    return {part.directory for part in process.cgroup.parts} if process.cgroup else set()


async def these_are_gone(folders: set[str]) -> None:
    with anyio.fail_after(PATIENCE):
        while any(map(os.path.exists, folders)):
            await anyio.sleep(0.01)


def beside(levels: Levels, **parts: object) -> WorkerRuntime:
    return dataclasses.replace(levels.runtime, **parts)  # type: ignore[arg-type]


async def import_in(start: Launch, name: str, **parts: object) -> str:
    process = await start("tries", environ=(("ACTS", json.dumps([("import", name)])),), **parts)
    (told,) = json.loads(await answer(process))
    return str(told)


async def test_a_worker_with_a_view_of_its_own_is_made_on_request(levels: Levels, start: Launch) -> None:
    extra = Mount("/etc", "/extra")
    runtime = beside(levels, mounts=(*levels.runtime.mounts, extra))
    first = await start(runtime=runtime, mounts=[extra])
    spare = await spare_beside(first)
    second = await start("tries", runtime=runtime, environ=(("ACTS", '[["list", "/extra"]]'),))
    assert json.loads(await answer(second)) == ["ENOENT"]
    assert second.init_pid != spare
    third = await start(runtime=runtime, mounts=[extra])
    assert third.init_pid == spare


async def test_what_lies_over_a_folder_that_all_see_really_does(start: Launch, tmp_path: Path) -> None:
    for name in ("lib", "lib64"):
        (tmp_path / name).mkdir()
    first = await start()
    spare = await spare_beside(first)
    # Around what all see, so it has to be made before that.
    second = await start(
        "tries",
        mounts=[Mount(str(tmp_path), "/etc")],
        environ=(("ACTS", '[["list", "/etc"], ["list", "/usr/share/zoneinfo/Etc"]]'),),
    )
    assert second.init_pid != spare
    told = json.loads(await answer(second))
    assert {"lib", "lib64"} <= {*told[0].split(",")}


async def test_a_runtime_below_the_private_folder_is_visible(levels: Levels, start: Launch, tmp_path: Path) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "__init__.py").touch()
    seen = Mount(str(tmp_path / "late"), "/tmp/of-the-runtime/late", mappable=True)
    packages = (*levels.runtime.packages, ("late", Path("/tmp/of-the-runtime")))
    runtime = beside(levels, packages=packages, mounts=(*levels.runtime.mounts, seen))
    assert await import_in(start, "late", runtime=runtime, mounts=[seen]) == "ok"
    await anyio.sleep(0.1)
    assert await import_in(start, "late", runtime=runtime, mounts=[seen]) == "ok"


async def test_a_failed_spare_is_reported_at_the_launch_that_needs_it(
    levels: Levels, start: Launch, tmp_path: Path
) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    seen = Mount(str(extra), "/extra")
    runtime = beside(levels, mounts=(*levels.runtime.mounts, seen))
    await start(runtime=runtime, mounts=[seen])
    extra.rmdir()
    failed: list[LaunchError] = []
    for _ in range(4):  # the first may still get one that was made before
        try:
            await start(runtime=runtime, mounts=[seen])
        except LaunchError as error:
            failed.append(error)
    assert len(failed) >= 3
    assert (failed[-1].step, failed[-1].errno) == (f"open {extra}", 2)
    extra.mkdir()
    with anyio.fail_after(PATIENCE):
        while True:
            try:
                await start(runtime=runtime, mounts=[seen])
                break
            except LaunchError:
                pass  # one that could not be made waited to tell
