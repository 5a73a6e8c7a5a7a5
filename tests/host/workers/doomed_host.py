"""A host for another test to kill: starts one worker that leaves daemons, says which processes there are, and waits."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import cast

import anyio

from host.workers.levels import Levels, Way
from paddock_sandbox.profile import IsolationLevel, Mount


async def main(by: str, fifo: str, level: str, folder: str) -> None:
    covers, scratch = Path(folder, "covers"), Path(folder, "scratch")
    for made in (covers, scratch):
        made.mkdir(exist_ok=True)
    levels = Levels(covers)
    shared = str(Path(fifo).parent)
    spec = levels.spec(
        cast(IsolationLevel, level),
        scratch,
        "leaves_daemons",
        mounts=[Mount(shared, shared, writable=True)],
        environ=(("FIFO", fifo),),
    )
    launcher = levels.launcher(Way(cast(IsolationLevel, level), "template" if by == "template" else "exec"))
    process = await launcher.launch(spec)
    assert await asyncio.get_running_loop().sock_recv(process.rpc, 4) == b"here"
    print(json.dumps([process.init_pid, process.pid]), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    # Whoever runs the tests in the background has SIGINT ignored, and a host inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    anyio.run(main, *sys.argv[1:])
