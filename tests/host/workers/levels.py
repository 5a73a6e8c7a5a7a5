"""Workers at every isolation level: how each is asked for, and which of them can be had where the tests run."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paddock.isolation.enforcement import LEVELS_WITH_NAMESPACES
from paddock.isolation.mount_table import MountTable
from paddock.isolation.runtime_paths import RuntimePaths
from paddock.workers.bwrap import BubblewrapLauncher
from paddock.workers.exec_launcher import ExecLauncher
from paddock.workers.fork_server import ForkServerLauncher
from paddock.workers.launcher import Launcher, LaunchSpec
from paddock.workers.probe import Unavailable, try_level
from paddock.workers.runtime import WorkerRuntime
from paddock_sandbox.cgroup import CgroupHome
from paddock_sandbox.profile import IsolationLevel, Mount, SandboxProfile

WORKERS = Path(__file__).parent / "workers"
TOKEN = f"paddock_tests_of_{os.getpid()}"
"""Part of the command line of every process that these tests start, until it has a title; no such package exists."""
TAG = f"{os.getpid():04x}"[-4:]
"""Part of the title of every worker and init that these tests start: the session that they are for."""


@dataclass(frozen=True, slots=True)
class Way:
    """A level, and how a worker comes to it."""

    level: IsolationLevel
    by: Literal["template", "exec"]

    def __str__(self) -> str:
        return f"{self.level} by {self.by}"


NS, BWRAP, LANDLOCK, NONE = (
    Way("ns", "template"),
    Way("bwrap", "exec"),
    Way("landlock", "template"),
    Way("none", "template"),
)
NS_BY_EXEC, LANDLOCK_BY_EXEC = Way("ns", "exec"), Way("landlock", "exec")

ONE_WAY_TO_EACH = (NS, BWRAP, LANDLOCK, NONE)
EVERY_WAY = (NS, NS_BY_EXEC, BWRAP, LANDLOCK, LANDLOCK_BY_EXEC, NONE)


class Levels:
    """What the tests of one session start their workers with."""

    def __init__(self, covers: Path) -> None:
        """`covers` is an empty folder that lasts as long as the workers."""
        located = WorkerRuntime.locate()
        packages = (*located.packages, ("paddock_test_worker", WORKERS), (TOKEN, WORKERS))
        self._paths = RuntimePaths.locate(located.interpreter, packages, covers)
        self.runtime = WorkerRuntime(
            interpreter=located.interpreter,
            packages=packages,
            mounts=self._shown(by_mounts=True),
            # A template that starts quickly.
            preload=("asyncio", "paddock_sandbox.lockdown", "paddock_test_worker"),
        )
        self.groups = CgroupHome.find()
        self._refusals: dict[IsolationLevel, str] = {"none": ""}

    def spec(
        self,
        level: IsolationLevel,
        scratch: Path,
        function: str = "waits",
        mounts: Iterable[Mount] = (),
        runtime: WorkerRuntime | None = None,
        environ: Iterable[tuple[str, str]] = (),
        **parts: object,
    ) -> LaunchSpec:
        """Return the spec of a function of the test worker; `scratch` is the host's folder where it needs one."""
        home = {"ns": "/scratch", "bwrap": "/tmp"}.get(level, str(scratch))
        shown = self._shown(by_mounts=level in LEVELS_WITH_NAMESPACES)
        if level == "landlock":
            # The interpreter looks for a module in the listing of its folder, as it does for the code of a plug-in.
            shown += (Mount(os.fspath(WORKERS), os.fspath(WORKERS), mappable=True),)
        profile = SandboxProfile(level, (*shown, *mounts), scratch=home)
        return LaunchSpec(
            name="tool-x",
            working_dir=Path(home),
            environ={"HOME": home, **dict(environ)},
            runtime=runtime or self.runtime,
            entry=f"paddock_test_worker:{function}",
            session=TAG,
            profile=dataclasses.replace(profile, **parts),  # type: ignore[arg-type]
        )

    def launcher(self, way: Way, *, groups: bool = True) -> Launcher:
        """Return a launcher of its own for a way."""
        home = self.groups if groups else None
        if way.level == "bwrap":
            return BubblewrapLauncher()
        return ForkServerLauncher(home) if way.by == "template" else ExecLauncher(home)

    async def refusal(self, level: IsolationLevel, scratch: Path) -> str:
        """Return what stands in the way of a level here, or nothing; found out once."""
        if level not in self._refusals:
            launcher = self.launcher(next(way for way in ONE_WAY_TO_EACH if way.level == level))
            try:
                found = await try_level(level, launcher, self.spec(level, scratch))
            finally:
                await launcher.aclose()
            self._refusals[level] = f"{level}: {found.step}: {found.reason}" if isinstance(found, Unavailable) else ""
        return self._refusals[level]

    def _shown(self, *, by_mounts: bool) -> tuple[Mount, ...]:
        table = MountTable()
        self._paths.show(table, by_mounts=by_mounts)
        return table.mounts()
