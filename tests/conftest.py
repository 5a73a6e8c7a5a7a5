"""What every test shares: one async backend, and a home folder that is never the real one."""

from __future__ import annotations

import fcntl
import gc
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from integration import command_line
from integration.warm_commands import WarmCommands
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.workers.runtime import WorkerRuntime
from support.examples import IN_FULL, examples
from support.few_certificates import load_no_roots
from support.found_once import Locate, found_once
from support.loaded_late import load_late
from support.unwritten_cache import ask_once, write_nothing_out
from support.warm_templates import WarmTemplates, warm_templates

# How long an example takes says how busy the machine is.
settings.register_profile(
    "steady", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

load_late("anthropic", "openai")  # thousands of models, for a few files of tests
load_no_roots()
write_nothing_out()
ask_once()

_LONGEST_NAME = 26  # characters; sockets are made in folders of this name, and theirs may have a hundred in all
_FEW = 40  # files of tests, a twelfth of all
_YOUNG = 10_000  # new objects between two looks of the collector, which at the usual 700 take a twentieth of all time
_numbers = itertools.count()
_COLD, _SOUGHT = WorkerRuntime.spawn, RuntimePaths.locate

for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        # As in a job of a script, or under nohup; every program under test would ignore it as well.
        signal.signal(_number, _usual)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Have the collector look at nothing that lasts as long as the tests: not while it grows, nor ever after."""
    gc.disable()
    try:
        with _one_compiles():
            return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(_YOUNG)


@contextmanager
def _one_compiles() -> Iterator[None]:
    """Have one process compile the tests, where they are not yet: all would do so at once, each all of them."""
    with open(__file__, encoding="utf-8") as lock:
        if not sys.dont_write_bytecode and os.access(Path(__file__).parent, os.W_OK):
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _are_compiled():
                fcntl.flock(lock, fcntl.LOCK_UN)
        yield


def _are_compiled() -> bool:
    """Whether pytest need not compile more than a few files of tests."""
    tag = f"{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    missing = 0
    for path in Path(__file__).parent.rglob("test_*.py"):
        compiled = path.parent / "__pycache__" / f"{path.stem}.{tag}"
        missing += not compiled.exists() or compiled.stat().st_mtime < path.stat().st_mtime
    return missing <= _FEW


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a full run tries, and have every process begin with its share of the slow tests.

    The others could only wait for one that came last.
    """
    left_out, slow, others = [], [], []
    for item in items:
        is_slow = item.get_closest_marker("slow") is not None
        kind = left_out if not IN_FULL and _repeats(item) else slow if is_slow else others
        kind.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    count, rest, items[:] = len(slow) + len(others), iter(others), []
    for number in range(processes):
        share = slow[number::processes]
        # As `--dist=worksteal` deals them out at first: to each as many as to the next.
        room = (count - len(items)) // (processes - number) - len(share)
        items += [*share, *itertools.islice(rest, max(room, 0))]
    items += rest


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Report of a test in one of several processes its call, and of what surrounds it only what went wrong.

    Each report is put into bytes and read again, by one process for all.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    where = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**where)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(**where)
    return True


def _repeats(item: pytest.Item) -> bool:
    """Whether a test repeats another: as a whole, or by its row, where the marker has words for the ids of rows."""
    row = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
    marks = item.iter_markers("exhaustive")
    return any(not mark.args or any(word in row for word in mark.args) for mark in marks)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Homes:
    """Home folders for one test after the other: a new one, or the last, where that is as it was made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unused: tuple[Path, tuple[object, ...]] | None = None

    @contextmanager
    def one(self) -> Iterator[Path]:
        home, made = self._unused or self._make()
        self._unused = None
        yield home
        with suppress(OSError):
            if _state(home) == made:
                self._unused = home, made

    def _make(self) -> tuple[Path, tuple[object, ...]]:
        home = self._folder / f"{next(_numbers)}"
        home.mkdir()
        return home, _state(home)


def _state(folder: Path) -> tuple[object, ...]:
    """Return which folder it is, when it was last changed in any way, and its entries.

    A change within the same tick of the clock as its making shows only in the entries.
    """
    found = os.stat(folder)
    return found.st_ino, found.st_mode, found.st_ctime_ns, os.listdir(folder)


@pytest.fixture(scope="session")
def _temporary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a test process; without a failure in it, it is removed after the process has ended.

    Pytest would keep it for three runs, and have the first process remove all of the oldest while the others are idle.
    The removal of many thousand files takes a disk longer than anybody should wait for a result.
    """
    folder = tmp_path_factory.getbasetemp()
    yield folder
    if hasattr(request.config, "workerinput") and not request.session.testsfailed:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["sh", "-c", 'rm -rf -- "$1" &', "sh", str(folder)], check=True, start_new_session=True, **quiet)


@pytest.fixture(scope="session")
def _homes(_temporary: Path) -> _Homes:
    homes = _temporary / "homes"
    homes.mkdir()
    return _Homes(homes)


@pytest.fixture(autouse=True)
def _home_is_out_of_reach(_homes: _Homes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with _homes.one() as home:
        monkeypatch.setenv("HOME", str(home))
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            monkeypatch.delenv(name, raising=False)
        yield


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of the test's own, numbered here: pytest looks through all that there are for the next number."""
    name = re.sub(r"\W", "_", request.node.name)[:_LONGEST_NAME]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(scope="session")
def _warm_templates() -> Iterator[WarmTemplates]:
    with warm_templates() as templates:
        yield templates


@pytest.fixture(scope="session")
def _warm_commands(_warm_templates: WarmTemplates) -> Iterator[WarmCommands]:
    with WarmCommands(_warm_templates) as commands:
        yield commands


@pytest.fixture(scope="session")
def _found_once() -> Locate:
    return found_once()


@pytest.fixture
def warm_starts(
    _warm_templates: WarmTemplates, _warm_commands: WarmCommands, _found_once: Locate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Have hosts and commands begin in processes that have loaded, or found, what they need."""
    monkeypatch.setattr(WorkerRuntime, "spawn", _warm_templates.spawner())
    monkeypatch.setattr(RuntimePaths, "locate", _found_once)
    monkeypatch.setattr(command_line, "_warm", _warm_commands)


@pytest.fixture
def cold(warm_starts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each host and each command of a test begin as a program, which loads what it needs."""
    monkeypatch.setattr(WorkerRuntime, "spawn", _COLD)
    monkeypatch.setattr(RuntimePaths, "locate", _SOUGHT)
    monkeypatch.setattr(command_line, "_warm", None)
