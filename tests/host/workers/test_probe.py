"""A level can be had when a worker came to be at it; when none did, the step that failed is told."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from host.workers.altered import altered
from host.workers.conftest import Needs
from host.workers.levels import BWRAP, LANDLOCK, NONE, NS, Levels, Way
from host.workers.waiting import PATIENCE
from paddock.workers.exit_report import ExitStatus
from paddock.workers.launcher import Launcher
from paddock.workers.probe import Available, SandboxSupport, Unavailable, try_level
from paddock.workers.process import ModuleProcess
from paddock_sandbox.mounts import NO_LINKS
from paddock_sandbox.profile import IsolationLevel

WAYS = {way.level: way for way in (NS, BWRAP, LANDLOCK, NONE)}


@pytest.fixture
async def launchers(levels: Levels) -> AsyncIterator[Callable[[IsolationLevel], Launcher]]:
    made: dict[Way, Launcher] = {}

    def launcher_of(level: IsolationLevel) -> Launcher:
        return made.setdefault(WAYS[level], levels.launcher(WAYS[level]))

    yield launcher_of
    for launcher in made.values():
        await launcher.aclose()


async def test_without_isolation_its_few_steps_are_listed(
    levels: Levels, launchers: Callable[[IsolationLevel], Launcher], scratch: Path
) -> None:
    with anyio.fail_after(PATIENCE):
        none = await try_level("none", launchers("none"), levels.spec("none", scratch))
    assert isinstance(none, Available)
    assert none.steps == ("no_new_privs", "no core dumps", "die with the parent")


async def test_an_available_level_lists_its_means_and_what_is_missing(
    levels: Levels, way: Way, launchers: Callable[[IsolationLevel], Launcher], scratch: Path
) -> None:
    with anyio.fail_after(PATIENCE):
        found = await try_level(way.level, launchers(way.level), levels.spec(way.level, scratch))
    assert isinstance(found, Available)
    assert found.level == way.level
    assert found.missing in ((), ("/proc",))
    assert bool(found.protections) is (way.level != "none")


async def test_only_the_probe_has_a_worker_try_to_hold_a_link(
    levels: Levels, launchers: Callable[[IsolationLevel], Launcher], needs: Needs, scratch: Path, tmp_path: Path
) -> None:
    await needs("ns")
    code = """
_real_call = call
def call(name, *arguments):
    if name == "move_mount" and os.path.lexists(".link"):
        raise OSError(errno.EINVAL, "injected")
    return _real_call(name, *arguments)
"""
    spec = levels.spec("ns", scratch, runtime=altered(levels.runtime, tmp_path, {"mounts": code}))
    with anyio.fail_after(PATIENCE):
        found = await try_level("ns", launchers("ns"), spec)
        process = await launchers("ns").launch(spec)
        await process.stop(0)
        process.rpc.close()
    assert isinstance(found, Available)
    assert NO_LINKS in found.missing
    assert NO_LINKS not in process.ready.missing


async def test_an_unavailable_level_names_the_step_and_the_kernels_answer(
    levels: Levels,
    launchers: Callable[[IsolationLevel], Launcher],
    needs: Needs,
    scratch: Path,
    tmp_path: Path,
) -> None:
    await needs("landlock")
    code = """
def restrict(rules, **named):
    raise OSError(38, "landlock_create_ruleset: injected")
"""
    runtime = altered(levels.runtime, tmp_path, {"landlock": code})
    with anyio.fail_after(PATIENCE):
        found = await try_level("landlock", launchers("landlock"), levels.spec("landlock", scratch, runtime=runtime))
    assert isinstance(found, Unavailable)
    assert (found.step, found.errno) == ("Landlock", errno.ENOSYS)
    assert "landlock_create_ruleset: injected" in found.reason


async def test_a_level_whose_worker_could_get_out_cannot_be_had(
    levels: Levels,
    launchers: Callable[[IsolationLevel], Launcher],
    needs: Needs,
    scratch: Path,
    tmp_path: Path,
) -> None:
    await needs("landlock")
    runtime = altered(levels.runtime, tmp_path, {"seccomp": "def install(program, **named):\n    pass"})
    with anyio.fail_after(PATIENCE):
        found = await try_level("landlock", launchers("landlock"), levels.spec("landlock", scratch, runtime=runtime))
    assert isinstance(found, Unavailable)
    assert (found.step, found.errno) == ("self-check", 0)
    assert "memfd" in found.reason


async def test_finding_out_can_be_given_up_while_a_worker_is_ended(
    levels: Levels,
    launchers: Callable[[IsolationLevel], Launcher],
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = ModuleProcess.stop
    stopped: list[ModuleProcess] = []

    async def stop_and_give_up(process: ModuleProcess, grace: float) -> ExitStatus:
        stopped.append(process)
        finding_out.cancel()
        return await stop(process, grace)

    monkeypatch.setattr(ModuleProcess, "stop", stop_and_give_up)
    finding_out = asyncio.ensure_future(try_level("none", launchers("none"), levels.spec("none", scratch)))
    with anyio.fail_after(PATIENCE):
        await asyncio.wait([finding_out])
        assert finding_out.cancelled()
        await stopped[0].wait()


def test_nothing_that_was_not_tried_can_be_had() -> None:
    assert SandboxSupport().reachable == frozenset()
    assert SandboxSupport({"ns": Unavailable("ns", "namespaces", 1, "refused")}).reachable == frozenset()
