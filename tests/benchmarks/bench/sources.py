"""What it takes to come by modules' code: from a warm cache, from a repository, and beside a plain clone of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.yardstick import bare_interpreter, in_bare_interpreters, pass_block
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import ModuleSources
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.files.policy import Policy
from paddock_sources import Resolution
from paddock_sources.cache import SourceCache
from sources.git_repositories import large_repository, module_repository

_ROUNDS: Final = 30
_COLD_ROUNDS: Final = 6
_SIDE_BY_SIDE_ROUNDS: Final = 1
_MODULES: Final = 20
_CLONE_SECONDS: Final = 60  # for a second of work; hit only by a hang
_FILES: Final = 1000
_STARTS: Final = ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system")


class _Starts:
    """Counts the programs that this process starts."""

    def __init__(self) -> None:
        self.count = 0
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTS:
            self.count += 1


class _User:
    """Somebody with a folder, in which plans are locked, and who has as many caches as are wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)
        self._environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    def new_folder(self) -> Path:
        """Return a folder with nothing in it: for a cache, or for a lock file."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        return folder

    async def resolve(self, modules: Sequence[tuple[str, str]], cache: Path, locks: Path) -> float:
        """Resolve modules as a session does that has just begun, and return how many milliseconds that took.

        What was pinned on the way is locked afterwards, as by a session: the next time nothing is looked up.
        """
        entries = [
            ModuleEntry.read({"module": name, "source": source}, EntryPlace("tool", f"tools[{number}]", locks))
            for number, (name, source) in enumerate(modules)
        ]
        before = time.perf_counter_ns()
        with SourceCache(cache) as kept:
            sources = ModuleSources(kept, self._environ, locks, locks, Policy(), SourceOptions())
            found = await sources.resolve(entries)
            taken = (time.perf_counter_ns() - before) / 1e6
            await sources.write()
        for one in found.values():
            if not isinstance(one, Resolution):
                raise one
        return taken


async def measure_sources(effort: Effort) -> list[Row]:
    """Measure each, and see that nothing is started, or fetched, for what is there."""
    with tempfile.TemporaryDirectory() as folder:
        user = _User(Path(folder))
        repositories = Path(folder) / "repositories"
        names = [f"tool-{number}" for number in range(effort.of(_MODULES))]
        files = effort.of(_FILES, 50)
        large_repository(repositories / "large", files, modules=names)
        for name in names:
            module_repository(repositories / name, name)
        together = [(name, f"git+file://{repositories}/large@main#subdirectory=modules/{name}") for name in names]
        apart = [(name, f"git+file://{repositories}/{name}@main") for name in names]
        return [
            *await _warm(user, together, effort),
            *await _first(user, apart[0], effort.of(_COLD_ROUNDS, 1)),
            *await _cold(user, together[0], repositories / "large", files, effort.of(_COLD_ROUNDS, 1)),
            await _second(user, together),
            *await _side_by_side(user, apart),
        ]


async def _warm(user: _User, modules: Sequence[tuple[str, str]], effort: Effort) -> list[Row]:
    cache, locks = user.new_folder(), user.new_folder()
    await user.resolve(modules, cache, locks)
    starts = _Starts()

    async def block(wanted: Sequence[tuple[str, str]]) -> list[float]:
        return [await user.resolve(wanted, cache, locks)]

    samples = await interleave({"one": lambda: block(modules[:1]), "all": lambda: block(modules)}, effort.of(_ROUNDS))
    started = starts.count
    yardstick = await bare_interpreter(effort)
    return [
        yardstick.row(
            "resolve a module from a warm cache",
            "A locked module of a git repository whose code is in the cache, as a session that begins finds it.",
            "ms",
            samples.p50("one"),
            5.0,
        ),
        yardstick.row(
            f"resolve {len(modules)} from a warm cache",
            "As many modules of one repository, in the same way.",
            "ms",
            samples.p50("all"),
            50.0,
        ),
        Row(
            "  programs started for that",
            "How often git, or anything else, was started for what is in the cache.",
            "",
            started,
            target=Target(0),
        ),
    ]


async def _resolved_once(user: _User, module: tuple[str, str]) -> list[float]:
    async with _for_once(user) as cache:
        return [await user.resolve([module], cache, cache)]


async def _first(user: _User, module: tuple[str, str], rounds: int) -> list[Row]:
    samples = await interleave({"first": partial(_resolved_once, user, module), "pass": pass_block}, rounds)
    return [
        Row.compared(
            "resolve from a small repository for the first time, to `python -c pass`",
            "A module whose repository was never fetched, with the start of the sandbox that git runs in.",
            "ms",
            samples,
            ("first", "pass"),
            in_bare_interpreters(0.08),
        )
    ]


async def _cold(user: _User, module: tuple[str, str], repository: Path, files: int, rounds: int) -> list[Row]:
    async def cloning() -> list[float]:
        async with _for_once(user) as folder:
            command = ["git", "clone", "--quiet", "--depth", "1", f"file://{repository}", str(folder / "clone")]
            before = time.perf_counter_ns()
            subprocess.run(command, check=True, close_fds=False, timeout=_CLONE_SECONDS)
            return [(time.perf_counter_ns() - before) / 1e6]

    samples = await interleave({"resolve": partial(_resolved_once, user, module), "clone": cloning}, rounds)
    return [
        Row.compared(
            f"resolve from a repository of {files} files, to a clone",
            "A module whose repository was never fetched, up to its checked tree, beside `git clone --depth 1`.",
            "ms",
            samples,
            ("resolve", "clone"),
            Target(2.0),
        )
    ]


async def _second(user: _User, modules: Sequence[tuple[str, str]]) -> Row:
    """See how much comes into the cache with another module of a repository that it has."""
    cache, locks = user.new_folder(), user.new_folder()
    await user.resolve(modules[:1], cache, locks)
    before = _packed(cache)
    await user.resolve(modules[1:2], cache, locks)
    return Row(
        "bytes fetched for a second module of the same repository",
        "How much more is in the cache once another module of a repository that it has is resolved.",
        "B",
        _packed(cache) - before,
        target=Target(0),
    )


async def _side_by_side(user: _User, modules: Sequence[tuple[str, str]]) -> list[Row]:
    async def all_at_once() -> list[float]:
        async with _for_once(user) as cache:
            return [await user.resolve(modules, cache, cache)]

    async def one_by_one() -> list[float]:
        async with _for_once(user) as cache:
            return [sum([await user.resolve([module], cache, cache) for module in modules])]

    samples = await interleave({"at once": all_at_once, "one by one": one_by_one}, _SIDE_BY_SIDE_ROUNDS)
    return [
        Row.compared(
            f"resolve {len(modules)} repositories at once, to one by one",
            "Modules of as many repositories, none of them fetched before, side by side and one after the other.",
            "ms",
            samples,
            ("at once", "one by one"),
        )
    ]


@asynccontextmanager
async def _for_once(user: _User) -> AsyncIterator[Path]:
    folder = user.new_folder()
    try:
        yield folder
    finally:
        await asyncio.to_thread(remove, folder)


def remove(folder: Path) -> None:
    for at, _, _ in os.walk(folder):  # what is cached cannot be changed
        os.chmod(at, 0o700)
    shutil.rmtree(folder)


def _packed(cache: Path) -> int:
    return sum(pack.stat().st_size for pack in cache.glob("git-v1/*/*.git/objects/pack/*.pack"))
