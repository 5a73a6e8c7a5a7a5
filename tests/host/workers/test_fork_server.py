"""The template: one for all, replaceable, and never a single point of failure."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import psutil
import pytest

from host.workers.conftest import Launch, with_entry
from host.workers.waiting import PATIENCE, answer, ended, gone, here
from paddock.errors import LaunchError
from paddock.workers.exec_launcher import ExecLauncher
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.launcher import LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock.workers.runtime import WorkerRuntime
from support.children import children_of_this_process

pytestmark = pytest.mark.usefixtures("cold_templates")

_OTHERS: set[int] = set()


@pytest.fixture
def launcher(template_launcher: ForkServerLauncher) -> ForkServerLauncher:
    return template_launcher


@pytest.fixture(autouse=True)
def others() -> None:
    """Know the children that other tests of this process keep open."""
    _OTHERS.clear()
    _OTHERS.update(children_of_this_process())


def templates() -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in children_of_this_process() - _OTHERS]


async def launch_and_close(launcher: ForkServerLauncher, spec: LaunchSpec) -> None:
    with anyio.fail_after(PATIENCE):
        process = await launcher.launch(spec)
    await here(process)
    process.rpc.close()
    assert (await ended(process)).code == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python has no immortal objects: 3.12 is the first")
async def test_of_many_workers_the_later_ones_copy_less_memory(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    processes: list[ModuleProcess] = []
    for _ in range(8):
        with anyio.fail_after(PATIENCE):
            processes.append(await template_launcher.launch(with_entry(spec, "refers_to_all_and_collects")))
        await here(processes[-1])
    own = [psutil.Process(process.pid).memory_full_info().uss for process in processes]
    for process in processes:
        process.rpc.close()
        assert (await ended(process)).code == 0
    assert own[-1] < 0.6 * own[0]


async def test_nothing_is_started_before_the_first_launch(template_launcher: ForkServerLauncher) -> None:
    assert templates() == []


async def test_a_killed_template_is_replaced_and_its_workers_live_on(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    with anyio.fail_after(PATIENCE):
        survivor = await template_launcher.launch(spec)
    await here(survivor)
    (template,) = templates()
    os.kill(template.pid, signal.SIGKILL)
    await launch_and_close(template_launcher, spec)
    assert survivor.status is None
    survivor.rpc.close()
    assert (await ended(survivor)).code == 0


async def test_launches_side_by_side_outlive_a_killed_template(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    await launch_and_close(template_launcher, spec)
    (template,) = templates()
    async with anyio.create_task_group() as launches:
        for _ in range(4):
            launches.start_soon(launch_and_close, template_launcher, spec)
        await anyio.lowlevel.checkpoint()
        os.kill(template.pid, signal.SIGKILL)


async def test_a_template_found_dead_and_reaped_is_replaced_too(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    await launch_and_close(template_launcher, spec)
    (template,) = templates()
    os.kill(template.pid, signal.SIGKILL)
    with anyio.fail_after(PATIENCE):
        while templates():
            await anyio.lowlevel.checkpoint()
    await launch_and_close(template_launcher, spec)


@pytest.mark.parametrize("kind", [ForkServerLauncher, ExecLauncher])
async def test_an_interpreter_that_is_not_there_is_an_error_that_names_it(
    kind: type[ForkServerLauncher | ExecLauncher], spec: LaunchSpec, tmp_path: Path
) -> None:
    runtime = dataclasses.replace(spec.runtime, interpreter=tmp_path / "python")
    launcher = kind()
    with pytest.raises(LaunchError, match=str(tmp_path / "python")):
        await launcher.launch(dataclasses.replace(spec, runtime=runtime))
    await launcher.aclose()


@pytest.mark.parametrize(
    ("name", "step", "message"),
    [
        ("no_such_module", "template", "No module named 'no_such_module'"),
        ("threaded", "template has one thread", ""),
    ],
)
async def test_a_template_that_cannot_fork_is_an_error_with_its_output(
    launch: Launch, runtime: WorkerRuntime, tmp_path: Path, name: str, step: str, message: str
) -> None:
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
    )
    packages = (*runtime.packages, ("threaded", tmp_path))
    error = await launch.refused(runtime=dataclasses.replace(runtime, packages=packages, preload=("asyncio", name)))
    assert error.step == step
    assert message in error.message


async def test_workers_of_different_runtimes_come_from_templates_of_their_own(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    await launch_and_close(template_launcher, spec)
    runtime = dataclasses.replace(spec.runtime, preload=("asyncio",))
    await launch_and_close(template_launcher, dataclasses.replace(spec, runtime=runtime))
    assert len(templates()) == 2


async def test_closing_the_launcher_ends_the_template_and_not_the_workers(spec: LaunchSpec) -> None:
    launcher = ForkServerLauncher()
    with anyio.fail_after(PATIENCE):
        process = await launcher.launch(spec)
    await here(process)
    await launcher.aclose()
    assert templates() == []
    process.rpc.close()
    assert (await ended(process)).code == 0


async def test_a_template_that_does_not_notice_its_closing_is_killed(spec: LaunchSpec) -> None:
    launcher = ForkServerLauncher()
    await launch_and_close(launcher, spec)
    (template,) = templates()
    template.suspend()
    pidfd = os.pidfd_open(template.pid)
    try:
        with anyio.fail_after(PATIENCE):
            await launcher.aclose()
        await gone(pidfd)
    finally:
        os.close(pidfd)


async def test_two_workers_of_one_template_do_not_share_their_random_numbers(
    template_launcher: ForkServerLauncher, spec: LaunchSpec
) -> None:
    seen: set[bytes] = set()
    for _ in range(2):
        process = await template_launcher.launch(with_entry(spec, "sends_a_random_number"))
        seen.add(await answer(process))
        await ended(process)
        process.rpc.close()
    assert len(seen) == 2


async def test_everything_the_installed_runtime_shares_is_imported_on_one_thread(
    template_launcher: ForkServerLauncher, spec: LaunchSpec, runtime: WorkerRuntime
) -> None:
    full = dataclasses.replace(runtime, preload=WorkerRuntime.locate().preload)
    await launch_and_close(template_launcher, dataclasses.replace(spec, runtime=full))
