"""A host that dies without a word takes everything it started along."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest

from host.workers.levels import EVERY_WAY, NONE, NS, Levels, Way
from host.workers.test_spares import spare_of
from host.workers.waiting import PATIENCE, children_of, fifo, gone, nobody_holds, pidfd_of
from support.examples import repeating

_HOST = Path(__file__).with_name("doomed_host.py")
_REPOSITORY = Path(__file__).parents[3]

NONE_BY_EXEC = Way("none", "exec")


def doomed_host(folder: Path, ways: Iterable[Way]) -> subprocess.Popen[bytes]:
    path = ":".join((*(str(_REPOSITORY / name) for name in ("host", "sdk", "sources", "tests")), *sys.path))
    return subprocess.Popen(
        [sys.executable, str(_HOST), str(folder), *map(str, ways)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": path},
    )


@pytest.mark.exhaustive("15")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, *repeating(signal.SIGINT)], ids=str)
async def test_a_host_that_is_killed_leaves_no_process(
    levels: Levels, scratch: Path, number: signal.Signals, tmp_path: Path
) -> None:
    wanted = (*EVERY_WAY, NONE_BY_EXEC) if number == signal.SIGKILL else (NS, NONE)
    ways = [way for way in wanted if not await levels.refusal(way.level, scratch)]
    assert ways
    with ExitStack() as cleanup:
        held = {}
        for way in ways:
            shared = tmp_path / str(way) / "shared"
            shared.mkdir(parents=True)
            held[way] = cleanup.enter_context(fifo(shared / "fifo"))
        host = cleanup.enter_context(doomed_host(tmp_path, ways))
        cleanup.callback(host.kill)
        assert host.stdout is not None
        with anyio.fail_after(PATIENCE):
            pids = json.loads(await anyio.to_thread.run_sync(host.stdout.readline))
        everything = {*children_of(host.pid), *pids}
        if NS in ways:  # whose template keeps one more ready
            spare = await spare_of(psutil.Process(pids[0]).ppid(), {pids[0]})
            everything |= {spare, *children_of(spare)}
        pidfds = [cleanup.enter_context(pidfd_of(pid)) for pid in everything]
        host.send_signal(number)
        for pidfd in pidfds:
            await gone(pidfd)
        for way in ways:
            await nobody_holds(held[way])
        with anyio.fail_after(PATIENCE):
            await anyio.to_thread.run_sync(host.wait)
    # Nobody was left to remove their groups: the next host does.
    with anyio.fail_after(PATIENCE):
        while groups_of(levels, host.pid):
            levels.groups.remove_stale()
            await anyio.sleep(0.01)


def groups_of(levels: Levels, host: int) -> list[str]:
    """Return the control groups of another host."""
    prefix = f"paddock-{host}-"
    return [name for place in levels.groups.places for name in os.listdir(place.directory) if name.startswith(prefix)]
