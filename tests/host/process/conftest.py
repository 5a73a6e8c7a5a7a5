"""Real processes for tests: a small runtime, both launchers, and proof after each test that nothing was left behind."""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import anyio
import pytest

from paddock.process import ExecLauncher, Launcher, LaunchSpec, ModuleProcess, TemplateLauncher, WorkerRuntime

WORKERS = Path(__file__).parent / "workers"
PATIENCE = 20.0

Launch = Callable[..., Awaitable[ModuleProcess]]


def children_of_this_process() -> set[int]:
    return _children_of("self")


def descendants_of_this_process() -> set[int]:
    found = unseen = children_of_this_process()
    while unseen:
        unseen = {child for pid in unseen for child in _children_of(pid)} - found
        found = found | unseen
    return found


def _children_of(pid: int | str) -> set[int]:
    children: set[int] = set()
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children.update(map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split()))
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended meanwhile
    return children


def open_fds() -> set[str]:
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    fds, children = open_fds(), children_of_this_process()
    yield
    assert children_of_this_process() == children, "a child was not reaped"
    assert open_fds() == fds, "a descriptor was not closed"


@pytest.fixture(scope="session")
def runtime() -> WorkerRuntime:
    """A runtime whose template starts quickly and whose workers are those of these tests."""
    located = WorkerRuntime.locate()
    return dataclasses.replace(
        located,
        packages=(*located.packages, ("paddock_test_worker", WORKERS)),
        preload=("asyncio", "paddock_sandbox.lockdown", "paddock_test_worker"),
        entry="paddock_test_worker:waits",
    )


@pytest.fixture
def spec(runtime: WorkerRuntime, tmp_path: Path) -> LaunchSpec:
    return LaunchSpec(name="tool-x", working_dir=tmp_path, environ={}, runtime=runtime)


def with_entry(spec: LaunchSpec, function: str, **changes: object) -> LaunchSpec:
    """Return the spec with another function of the test worker as its entry."""
    runtime = dataclasses.replace(spec.runtime, entry=f"paddock_test_worker:{function}")
    return dataclasses.replace(spec, runtime=runtime, **changes)  # type: ignore[arg-type]


@pytest.fixture
async def template_launcher() -> AsyncIterator[TemplateLauncher]:
    launcher = TemplateLauncher()
    yield launcher
    await launcher.aclose()


@pytest.fixture(params=[TemplateLauncher, ExecLauncher], ids=["template", "exec"])
async def launcher(request: pytest.FixtureRequest) -> AsyncIterator[Launcher]:
    launcher: Launcher = request.param()
    yield launcher
    await launcher.aclose()


@pytest.fixture
async def launch(launcher: Launcher, spec: LaunchSpec) -> AsyncIterator[Launch]:
    """Launch a function of the test worker; whatever still lives after the test is ended."""
    launched: list[ModuleProcess] = []

    async def launch(function: str, **changes: object) -> ModuleProcess:
        with anyio.fail_after(PATIENCE):
            process = await launcher.launch(with_entry(spec, function, **changes))
        launched.append(process)
        return process

    yield launch
    for process in launched:
        await process.stop(0)
        process.rpc.close()
