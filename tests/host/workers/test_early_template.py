"""The interpreter that starts before it is needed: taken once, by its own runtime only, and never left behind."""

from __future__ import annotations

import dataclasses
import os
import signal

import anyio
import anyio.lowlevel
import anyio.to_thread
import psutil
import pytest

from host.workers.conftest import Needs, left_open, open_fds
from host.workers.test_worker_network import few_descriptors
from host.workers.waiting import PATIENCE, ended, here
from paddock.errors import KindError
from paddock.isolation.sandbox_host import SandboxHost
from paddock.workers import capacity
from paddock.workers.early_template import TemplateInterpreter, begun, interpreter_for
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.launcher import LaunchSpec
from paddock.workers.probe import Available
from paddock.workers.runtime import WorkerRuntime
from support.children import children_of_this_process

pytestmark = pytest.mark.usefixtures("cold_templates")


async def launch_and_close(launcher: ForkServerLauncher, spec: LaunchSpec) -> int:
    """Return the process that the worker's init was forked from, after the worker's end."""
    with anyio.fail_after(PATIENCE):
        process = await launcher.launch(spec)
    await here(process)
    init = psutil.Process(process.pid).parent()
    assert init is not None
    template = init.ppid()
    process.rpc.close()
    assert (await ended(process)).code == 0
    return template


async def test_first_template_takes_the_early_interpreter(spec: LaunchSpec) -> None:
    before = children_of_this_process()
    launcher, other = ForkServerLauncher(), ForkServerLauncher()
    with begun(lambda: spec.runtime):
        (early,) = children_of_this_process() - before
        assert await launch_and_close(launcher, spec) == early
        assert await launch_and_close(launcher, spec) == early
        assert await launch_and_close(other, spec) != early
    assert psutil.pid_exists(early)
    await launcher.aclose()
    await other.aclose()
    assert children_of_this_process() == before


async def test_early_interpreter_of_another_runtime_ends_unused(spec: LaunchSpec) -> None:
    before = children_of_this_process()
    launcher = ForkServerLauncher()
    with begun(lambda: dataclasses.replace(spec.runtime, preload=("asyncio", "json"))):
        (early,) = children_of_this_process() - before
        assert await launch_and_close(launcher, spec) != early
        await launcher.aclose()
    assert children_of_this_process() == before


def test_one_waits_for_each_runtime_and_ends_with_what_began_it(spec: LaunchSpec) -> None:
    before = children_of_this_process()
    other = dataclasses.replace(spec.runtime, preload=("asyncio", "json"))
    with begun(lambda: spec.runtime):
        first = children_of_this_process() - before
        with begun(lambda: spec.runtime):
            assert children_of_this_process() - before == first
        with begun(lambda: other):
            assert len(children_of_this_process() - before) == 2
        assert children_of_this_process() - before == first
    assert children_of_this_process() == before


async def test_a_hosts_template_begins_to_load_before_any_worker_is_wanted(needs: Needs) -> None:
    await needs("landlock")
    before = children_of_this_process()
    async with SandboxHost.started() as host:
        (early,) = children_of_this_process() - before
        found = await host.try_levels(["landlock"])
        assert isinstance(found.findings["landlock"], Available)
        assert children_of_this_process() - before == {early}  # the worker had no other template
    assert children_of_this_process() == before


async def test_another_thread_takes_no_early_interpreter(spec: LaunchSpec) -> None:
    def taken() -> int:
        interpreter = interpreter_for(spec.runtime)
        interpreter.release()
        interpreter.child.wait()
        return interpreter.child.pid

    before = children_of_this_process()
    with begun(lambda: spec.runtime):
        (early,) = children_of_this_process() - before
        assert await anyio.to_thread.run_sync(taken) != early
        assert taken() == early


async def test_no_interpreter_starts_where_the_system_leaves_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerRuntime, "spawn", lambda *_: pytest.fail("it started"))
    monkeypatch.setattr(capacity.resource, "getrlimit", lambda _: (10, 10))
    with pytest.raises(KindError):
        async with SandboxHost.started():
            pass


async def test_dead_early_interpreter_is_replaced(spec: LaunchSpec) -> None:
    before = children_of_this_process()
    launcher = ForkServerLauncher()
    with begun(lambda: spec.runtime):
        (early,) = children_of_this_process() - before
        os.kill(early, signal.SIGKILL)
        with anyio.fail_after(PATIENCE):
            while psutil.Process(early).status() != psutil.STATUS_ZOMBIE:
                await anyio.lowlevel.checkpoint()
        assert await launch_and_close(launcher, spec) != early
    await launcher.aclose()
    assert children_of_this_process() == before


@pytest.mark.parametrize("free", range(5))
def test_nothing_is_left_of_an_interpreter_without_descriptors(spec: LaunchSpec, free: int) -> None:
    before = open_fds()
    with few_descriptors(free), pytest.raises(OSError, match="Too many open files"):
        TemplateInterpreter(spec.runtime)
    assert not left_open(before)


def test_an_interpreter_that_cannot_start_early_is_no_error() -> None:
    def missing() -> WorkerRuntime:
        raise ModuleNotFoundError("msgpack")

    before = children_of_this_process()
    with begun(missing), pytest.raises(ZeroDivisionError):
        assert children_of_this_process() == before
        raise ZeroDivisionError
