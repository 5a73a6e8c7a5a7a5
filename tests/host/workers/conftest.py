"""Real processes for tests: a small runtime, all launchers, and proof after each test that nothing was left behind."""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from host.workers.levels import ONE_WAY_TO_EACH, TAG, TOKEN, Levels, Way
from host.workers.waiting import PATIENCE
from paddock.errors import LaunchError
from paddock.workers.exec_launcher import ExecLauncher
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.process import ModuleProcess
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import IsolationLevel
from support.children import children_of_this_process, descendants_of_this_process
from support.mounted import mounted
from support.warm_templates import WarmTemplates, warm_templates

Needs = Callable[[IsolationLevel], Awaitable[None]]

_COLD = WorkerRuntime.spawn
_HOST = re.compile(r"^paddock: .* \[host ([0-9]+)\]")
_told: set[object] = set()  # processes that a test has failed for; those after it need not wait for them as well
_GONE_SECONDS = 60.0  # a tree that was told to end, and its control group, are gone long before


def open_fds() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def left_open(fds: set[str]) -> set[str]:
    """Return the descriptors that were opened since then; only where there are any is it worth to collect garbage."""
    if open_fds() <= fds:
        return set()
    gc.collect()
    return open_fds() - fds


def processes_of_these_tests() -> set[int]:
    """Return every process that was started here, whosever child it has become."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and is_of_these_tests(name)}


def is_of_these_tests(pid: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return False  # it ended meanwhile
    host = _HOST.search(command)
    if host is None:
        return TOKEN in command or f" [{TAG}]" in command
    # A template may be of a host that these tests have started and killed.
    return int(host[1]) in {os.getpid(), *descendants_of_this_process()} or not os.path.exists(f"/proc/{host[1]}")


def groups_of_these_tests(home: CgroupHome) -> set[str]:
    """Return the folders of this process's control groups, but for those in which a session of other tests lives."""
    folders = {
        os.path.join(place.directory, name)
        for place in home.places
        for name in os.listdir(place.directory)
        if name.startswith(home.owner.prefix)
    }
    return {folder for folder in folders if all(map(is_of_these_tests, members(folder)))}


def members(folder: str) -> list[str]:
    try:
        return Path(folder, "cgroup.procs").read_text().split()
    except OSError:
        return []  # removed meanwhile


def still_there(find: Callable[[], Iterable[object]]) -> Iterable[object]:
    """Return what is still found when all should be gone."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (found := find()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.fixture(scope="session")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Levels:
    return Levels(tmp_path_factory.mktemp("covers"))


@pytest.fixture(scope="session")
def _warm_workers(levels: Levels) -> Iterator[WarmTemplates]:
    with warm_templates(levels.runtime) as templates:
        yield templates


@pytest.fixture
def _warm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WarmTemplates | None:
    """Have templates begin in a process that has loaded what they need, where a test starts workers."""
    if "levels" not in request.fixturenames:
        return None
    warm: WarmTemplates = request.getfixturevalue("_warm_workers")
    monkeypatch.setattr(WorkerRuntime, "spawn", warm.spawner())
    return warm


@pytest.fixture
def cold_templates(_warm: WarmTemplates | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each template begin as a program and as a child of this process, for tests of just that."""
    monkeypatch.setattr(WorkerRuntime, "spawn", _COLD)


@pytest.fixture(scope="module")
def _no_garbage() -> None:
    """Close what garbage of other files of tests holds open; the tests of this one leave none."""
    gc.collect()


@pytest.fixture(autouse=True)
def nothing_is_left_behind(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    _warm: WarmTemplates | None,
    _no_garbage: None,
) -> Iterator[None]:
    folder = tmp_path_factory.getbasetemp()
    fds, children, mounts = open_fds(), children_of_this_process(), mounted(folder)
    starts_workers = _warm is not None  # elsewhere nothing is started that could hide
    kept = {_warm.pid} if _warm is not None else set()
    home = request.getfixturevalue("levels").groups if starts_workers else CgroupHome()
    groups = groups_of_these_tests(home)
    yield
    assert children_of_this_process() == children, "a child was not reaped"
    # A look of the watchdog, on a thread of its own, may just be at its end.
    assert not still_there(lambda: left_open(fds)), "a descriptor was not closed"
    assert open_fds() == fds, "a descriptor was closed that was another's"
    assert mounted(folder) == mounts, "something is still mounted"
    if starts_workers:
        left = still_there(lambda: [pid for pid in processes_of_these_tests() - kept if pid not in _told])
        _told.update(left)
        assert not left, "a process lives on"
        assert not still_there(lambda: groups_of_these_tests(home) - groups), "a control group was not removed"


@pytest.fixture(scope="session")
def runtime(levels: Levels) -> WorkerRuntime:
    """A runtime whose template starts quickly and whose workers are those of these tests."""
    return levels.runtime


@pytest.fixture
def spec(runtime: WorkerRuntime, tmp_path: Path) -> LaunchSpec:
    return LaunchSpec(
        name="tool-x",
        working_dir=tmp_path,
        environ={},
        runtime=runtime,
        entry="paddock_test_worker:waits",
        session=TAG,
    )


def with_entry(spec: LaunchSpec, function: str, **changes: object) -> LaunchSpec:
    """Return the spec with another function of the test worker as its entry."""
    return dataclasses.replace(spec, entry=f"paddock_test_worker:{function}", **changes)  # type: ignore[arg-type]


@pytest.fixture
async def template_launcher() -> AsyncIterator[ForkServerLauncher]:
    launcher = ForkServerLauncher()
    yield launcher
    await launcher.aclose()


# The same code is a worker's init in both; a test of what they do differently, or of all ways to end, has both always.
by_every_launcher = pytest.mark.parametrize(
    "launcher", [ForkServerLauncher, ExecLauncher], ids=["template", "exec"], indirect=True
)


@pytest.fixture(
    params=[
        pytest.param(ForkServerLauncher, id="template"),
        pytest.param(ExecLauncher, id="exec", marks=pytest.mark.exhaustive),
    ]
)
async def launcher(request: pytest.FixtureRequest) -> AsyncIterator[Launcher]:
    launcher: Launcher = request.param()
    yield launcher
    await launcher.aclose()


class Launch:
    """Launches functions of the test worker; what still lives after the test is ended, and the launcher is closed."""

    def __init__(self, launcher: Launcher, spec: Callable[..., LaunchSpec]) -> None:
        self.launcher = launcher
        self._spec = spec
        self._launched: list[ModuleProcess] = []

    async def __call__(self, function: str = "waits", **parts: object) -> ModuleProcess:
        with anyio.fail_after(PATIENCE):
            self._launched.append(await self.launcher.launch(self._spec(function=function, **parts)))
        return self._launched[-1]

    async def refused(self, function: str = "waits", **parts: object) -> LaunchError:
        """Return why a launch failed; that it left nothing behind is seen after the test."""
        with anyio.fail_after(PATIENCE), pytest.raises(LaunchError) as failed:
            await self.launcher.launch(self._spec(function=function, **parts))
        return failed.value

    async def end(self) -> None:
        for process in self._launched:
            await process.stop(0)
            process.rpc.close()
        await self.launcher.aclose()


@pytest.fixture
async def launch(launcher: Launcher, spec: LaunchSpec) -> AsyncIterator[Launch]:
    launch = Launch(launcher, partial(with_entry, spec))
    yield launch
    await launch.end()


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The private folder of a worker that has no root of its own."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def needs(levels: Levels, scratch: Path) -> Needs:
    """Skip a test where a level is not to be had, with what a worker met that tried."""

    async def needs(level: IsolationLevel) -> None:
        if refusal := await levels.refusal(level, scratch):
            pytest.skip(refusal)

    return needs


def by(*ways: Any) -> pytest.MarkDecorator:
    """Run a test in these ways."""
    return pytest.mark.parametrize("way", ways, ids=str, indirect=True)


@pytest.fixture(params=ONE_WAY_TO_EACH, ids=str)
async def way(request: pytest.FixtureRequest, needs: Needs) -> Way:
    """A way to each level that can be had."""
    way: Way = request.param
    await needs(way.level)
    return way


@pytest.fixture
async def start(levels: Levels, way: Way, scratch: Path) -> AsyncIterator[Launch]:
    """Launch a function of the test worker at a level."""
    start = Launch(levels.launcher(way), partial(levels.spec, way.level, scratch))
    yield start
    await start.end()
