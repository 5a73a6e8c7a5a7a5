"""How many files of the host an act enters: `python tests/packaging/trips.py [--files]`.

Prints, for each of five acts, the number of files below `host/` in which a function ran between the act and its answer,
beside the most that is expected; `--files` prints the files too. It only prints.

A call is one of a tool by an orchestrator, from worker to worker; a grant, the decision about a module that is to read
a folder, with the check of that folder; a process, `Supervisor.start`; a module, `HostedModule.start`, which has a
process started; a source, the first fetch of a repository. Each is made several times, and the fewest files count: the
first time something is loaded, and what goes by the clock, such as the watchdog of limits, may run at the same time.
"""

# ruff: noqa: E402 - what is imported from the folders of tests is found once they are on the path

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_ROOT / "tests"), str(_ROOT / "tests" / "benchmarks")]

from bench.stage import MODULES, Stage

from paddock.authorization.authorizer import Authorizer
from paddock.isolation.sandbox_host import SandboxHost
from paddock.module_sources.provisioning import SourceOptions
from paddock.module_sources.resolve import ModuleSources
from paddock.plan.model import EntryPlace, ModuleEntry
from paddock.policy.files.policy import Policy
from paddock.session.module import HostedModule
from paddock.workers.supervisor import Supervisor
from paddock_sdk.protocol.connection import Connection
from paddock_sources import FileSource
from paddock_sources.cache import SourceCache
from sources.git_repositories import module_repository

_HOST: Final = f"{_ROOT / 'host'}{os.sep}"
_EXPECTED: Final = {"call": 9, "grant": 15, "process": 20, "module": 40, "source": 40}
_TIMES: Final = 4


class Trips:
    """Notes the files in which functions run, in all threads that begin after it is made.

    `entered` has the paths below `host/` that a trip entered, by its name: of several, the fewest.
    """

    def __init__(self) -> None:
        self.entered: dict[str, set[str]] = {}
        self._under_way: list[set[str]] = []
        sys.setprofile(self._note)
        threading.setprofile(self._note)

    @contextmanager
    def trip(self, name: str) -> Iterator[None]:
        """Note what is entered meanwhile."""
        entered = set[str]()
        self._under_way.append(entered)
        try:
            yield
        finally:
            self._under_way = [one for one in self._under_way if one is not entered]
            self.entered[name] = min(self.entered.get(name, entered), entered, key=len)

    def follow(self, name: str, owner: type, method: str) -> None:
        """Make each call of a method a trip, from the call to its answer."""
        followed = getattr(owner, method)

        async def following(*arguments: Any, **options: Any) -> Any:
            with self.trip(name):
                return await followed(*arguments, **options)

        setattr(owner, method, following)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and self._under_way and code.co_filename.startswith(_HOST) and code.co_name != "<module>":
            for entered in self._under_way:
                entered.add(code.co_filename.removeprefix(_HOST))


async def call(trips: Trips, stage: Stage, tool: HostedModule) -> None:
    """Have the orchestrator of a stage call a tool without a pause, and make trips of some of the calls."""
    sent = tool.peer.channel.connection  # its count, unlike the module's, is asked for without a function of the host
    order = json.dumps({"tool": "trivial", "calls": 500, "input": {}})
    turn = asyncio.create_task(stage.coordinator.get("orchestrator").execute(order))
    for number in range(5 * _TIMES):
        await _passed(sent, 10 + 20 * number, turn)
        with trips.trip("call"):
            await _passed(sent, 20 + 20 * number, turn)
    await turn


async def _passed(connection: Connection, requests: int, turn: asyncio.Task[str]) -> None:
    """Wait until that many requests were sent on a connection, at the pace of the loop."""
    while connection.requests_sent < requests and not turn.done():
        await asyncio.sleep(0)


async def grant(trips: Trips, number: int) -> None:
    """Decide about a module that is to read a folder."""
    written = {"module": "tool-trivial", "source": "./tool-trivial", "permissions": {"read": ["."]}}
    entry = ModuleEntry.read(written, EntryPlace("tool", f"tools[{number}]", MODULES))
    resolution = FileSource(MODULES / "tool-trivial").resolve("tool-trivial")
    authorizer = await Authorizer.at_work(Path.cwd(), os.environ, Policy())
    with trips.trip("grant"):
        await authorizer.check_places(await authorizer.authorize_call(entry, resolution, None))


async def fetch(trips: Trips, host: SandboxHost, repository: Path, folder: Path) -> None:
    """Resolve the module `tool-x` of a repository as a session does whose cache and lock file are in `folder`."""
    os.mkdir(folder)
    written = {"module": "tool-x", "source": f"git+file://{repository}@main"}
    entry = ModuleEntry.read(written, EntryPlace("tool", "tools[0]", folder))
    with SourceCache(folder) as cache:
        sources = ModuleSources(cache, os.environ, folder, folder, Policy(), SourceOptions(), host=host)
        with trips.trip("source"):
            await sources.resolve([entry])


async def travel(trips: Trips, folder: Path) -> None:
    """Make each trip several times."""
    module_repository(folder / "repository", "tool-x")
    async with Stage.open() as stage, SandboxHost.started() as host:
        for number in range(_TIMES):
            await grant(trips, number)
            await fetch(trips, host, folder / "repository", folder / f"cache-{number}")
        trips.follow("process", Supervisor, "start")
        trips.follow("module", HostedModule, "start")
        for number in range(_TIMES):
            await stage.start("tool", "tool-trivial", {"name": f"other-{number}"}, permissions={"read": ["."]})
        tool = await stage.start("tool", "tool-trivial", {"name": "trivial"})
        await stage.start("orchestrator", "loop-timing")
        await call(trips, stage, tool)


def main() -> None:
    """Print how many files each trip entered."""
    trips = Trips()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(travel(trips, Path(folder)))
    for name, expected in _EXPECTED.items():
        print(f"{name:8} {len(trips.entered[name]):3} files, expected at most {expected}")
        if "--files" in sys.argv:
            print("".join(f"    {path}\n" for path in sorted(trips.entered[name])), end="")


if __name__ == "__main__":
    main()
