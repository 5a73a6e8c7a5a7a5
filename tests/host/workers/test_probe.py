"""A level can be had when a worker came to be at it; when none did, the step that failed is told."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

from host.workers.altered import altered
from host.workers.conftest import Launch, by
from host.workers.levels import LANDLOCK, NONE, NS, Levels, Way
from host.workers.waiting import PATIENCE
from paddock.workers.exit_report import ExitStatus
from paddock.workers.probe import Available, SandboxSupport, Unavailable, try_level
from paddock.workers.process import ModuleProcess
from paddock_sandbox.mounts import NO_LINKS

Find = Callable[..., Coroutine[Any, Any, Available | Unavailable]]


@pytest.fixture
def find(levels: Levels, way: Way, start: Launch, scratch: Path) -> Find:
    """Find out whether the level can be had."""

    async def find(**parts: Any) -> Available | Unavailable:
        with anyio.fail_after(PATIENCE):
            return await try_level(way.level, start.launcher, levels.spec(way.level, scratch, **parts))

    return find


async def test_an_available_level_lists_its_means_and_what_is_missing(find: Find, way: Way) -> None:
    found = await find()
    assert isinstance(found, Available)
    assert found.level == way.level
    assert found.missing in ((), ("/proc",))
    assert "no_new_privs" in found.steps and len(found.steps) > 2
    assert bool(found.protections) is (way.level != "none")


@by(NS)
async def test_only_the_probe_has_a_worker_try_to_hold_a_link(
    start: Launch, find: Find, levels: Levels, tmp_path: Path
) -> None:
    code = """
_real_call = call
def call(name, *arguments):
    if name == "move_mount" and os.path.lexists(".link"):
        raise OSError(errno.EINVAL, "injected")
    return _real_call(name, *arguments)
"""
    runtime = altered(levels.runtime, tmp_path, {"mounts": code})
    found, process = await find(runtime=runtime), await start(runtime=runtime)
    assert isinstance(found, Available)
    assert NO_LINKS in found.missing
    assert NO_LINKS not in process.ready.missing


@by(LANDLOCK)
@pytest.mark.parametrize(
    ("module", "code", "step", "number", "reason"),
    [
        ("landlock", 'raise OSError(38, "landlock_create_ruleset: injected")', "Landlock", errno.ENOSYS, "injected"),
        ("seccomp", "pass", "self-check", 0, "memfd"),
    ],
    ids=["a step fails", "it could get out"],
)
async def test_an_unavailable_level_names_the_step_and_the_kernels_answer(
    find: Find, levels: Levels, tmp_path: Path, module: str, code: str, step: str, number: int, reason: str
) -> None:
    function = {"landlock": "restrict", "seccomp": "install"}[module]
    changed = {module: f"def {function}(given, **named):\n    {code}\n"}
    found = await find(runtime=altered(levels.runtime, tmp_path, changed))
    assert isinstance(found, Unavailable)
    assert (found.step, found.errno) == (step, number)
    assert reason in found.reason


@by(NONE)
async def test_finding_out_can_be_given_up_while_a_worker_is_ended(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = ModuleProcess.stop
    stopped: list[ModuleProcess] = []

    async def stop_and_give_up(process: ModuleProcess, grace: float) -> ExitStatus:
        stopped.append(process)
        finding_out.cancel()
        return await stop(process, grace)

    monkeypatch.setattr(ModuleProcess, "stop", stop_and_give_up)
    finding_out = asyncio.create_task(find())
    with anyio.fail_after(PATIENCE):
        await asyncio.wait([finding_out])
        assert finding_out.cancelled()
        await stopped[0].wait()


def test_nothing_that_was_not_tried_can_be_had() -> None:
    assert SandboxSupport().reachable == frozenset()
    assert SandboxSupport({"ns": Unavailable("ns", "namespaces", 1, "refused")}).reachable == frozenset()
