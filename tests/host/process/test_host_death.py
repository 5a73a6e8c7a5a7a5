"""A host that dies without a word takes everything it started along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from host.process.waiting import PATIENCE, children_of, fifo, gone, nobody_holds

_HOST = Path(__file__).with_name("doomed_host.py")
_REPOSITORY = Path(__file__).parents[3]


def doomed_host(launcher: str, fifo: str) -> subprocess.Popen[bytes]:
    path = ":".join(str(_REPOSITORY / name) for name in ("host", "sdk", "sources"))
    return subprocess.Popen(
        [sys.executable, str(_HOST), launcher, fifo],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": path},
    )


@contextmanager
def pidfd_of(pid: int) -> Iterator[int]:
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize("launcher", ["template", "exec"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_host_that_is_killed_leaves_no_process(launcher: str, number: signal.Signals, tmp_path: Path) -> None:
    with ExitStack() as cleanup:
        held = cleanup.enter_context(fifo(tmp_path / "fifo"))
        host = cleanup.enter_context(doomed_host(launcher, str(tmp_path / "fifo")))
        cleanup.callback(host.kill)
        assert host.stdout is not None
        with anyio.fail_after(PATIENCE):
            pids = json.loads(await anyio.to_thread.run_sync(host.stdout.readline))
        everything = {*children_of(host.pid), *pids}
        pidfds = [cleanup.enter_context(pidfd_of(pid)) for pid in everything]
        host.send_signal(number)
        for pidfd in pidfds:
            await gone(pidfd)
        await nobody_holds(held)
        with anyio.fail_after(PATIENCE):
            await anyio.to_thread.run_sync(host.wait)
