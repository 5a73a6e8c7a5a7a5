"""A host for another test to kill: starts workers that leave daemons, says which processes there are, and waits."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Literal, cast

import anyio

from host.workers.levels import Levels, Way
from paddock.workers.launcher import Launcher
from paddock.workers.process import ModuleProcess
from paddock_sandbox.profile import IsolationLevel, Mount


async def main(folder: str, *ways: str) -> None:
    """Start one worker in each way, a level and what it is come to by; each has a folder of its own below `folder`."""
    covers = Path(folder, "covers")
    os.mkdir(covers)
    levels = Levels(covers)
    pids: list[int] = []
    held: list[tuple[Launcher, ModuleProcess]] = []  # what is let go of ends
    for name in ways:
        level, by = name.split(" by ")
        way = Way(cast(IsolationLevel, level), cast(Literal["template", "exec"], by))
        scratch, shared = Path(folder, name, "scratch"), Path(folder, name, "shared")
        os.mkdir(scratch)
        spec = levels.spec(
            way.level,
            scratch,
            "leaves_daemons",
            mounts=[Mount(str(shared), str(shared), writable=True)],
            environ=(("FIFO", str(shared / "fifo")),),
        )
        launcher = levels.launcher(way)
        process = await launcher.launch(spec)
        assert await asyncio.get_running_loop().sock_recv(process.rpc, 4) == b"here"
        pids += [process.init_pid, process.pid]
        held.append((launcher, process))
    print(json.dumps(pids), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    # Whoever runs the tests in the background has SIGINT ignored, and a host inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    anyio.run(main, *sys.argv[1:])
