"""A host for another test to kill: starts one worker that leaves daemons, says which processes there are, and waits."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import anyio

from paddock.process import ExecLauncher, Launcher, LaunchSpec, TemplateLauncher, WorkerRuntime


async def main(launcher: Launcher, fifo: str) -> None:
    located = WorkerRuntime.locate()
    runtime = WorkerRuntime(
        interpreter=located.interpreter,
        packages=(*located.packages, ("paddock_test_worker", Path(__file__).parent / "workers")),
        preload=("asyncio", "paddock_test_worker"),
        entry="paddock_test_worker:leaves_daemons",
    )
    spec = LaunchSpec(name="tool-x", working_dir=Path("/"), environ={"FIFO": fifo}, runtime=runtime)
    process = await launcher.launch(spec)
    assert await asyncio.get_running_loop().sock_recv(process.rpc, 4) == b"here"
    print(json.dumps([process.init_pid, process.pid]), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    # Whoever runs the tests in the background has SIGINT ignored, and a host inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    anyio.run(main, TemplateLauncher() if sys.argv[1] == "template" else ExecLauncher(), sys.argv[2])
