"""How long the host stood still is told whatever else the machine is doing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from paddock.selftest.attack_session import Responsiveness
from support.rows import each_row

_SECONDS = 0.3
_TURN = 0.1  # seconds, and many times what a loop with nothing to do is late by
_PATIENCE = 200.0  # hit only by a hang


def _compute(seconds: float) -> None:
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass


@each_row("act", [time.sleep, _compute])
async def test_a_loop_that_stands_still_or_computes_is_noticed(act: Callable[[float], object]) -> None:
    with Responsiveness() as responsiveness:
        await asyncio.sleep(0.02)
        act(_SECONDS)
        await asyncio.sleep(0.02)
    assert responsiveness.lag >= _SECONDS - 0.02


# Gives way to all else that wants the one processor, until it has had to for long. Little is done at that priority: it
# gets a hundredth of a processor, and less on a busy machine.
_GIVES_WAY = """
import asyncio, json, os, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from paddock.selftest.attack_session import Responsiveness

async def main(other):
    with Responsiveness() as responsiveness:
        await asyncio.sleep(0)
        os.nice(19)
        longest = 0.0
        while longest < float(sys.argv[2]):
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)
        os.kill(other, 9)
        await asyncio.sleep(0)
    print(json.dumps([longest, responsiveness.lag]))

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
this = os.getpid()
other = os.fork()
if other == 0:
    while os.getppid() == this:
        pass
    os._exit(0)
asyncio.run(main(other))
os.waitpid(other, 0)
"""


def test_a_loop_that_has_to_wait_for_a_processor_does_not_stand_still() -> None:
    if not os.path.exists("/proc/thread-self/schedstat"):
        pytest.skip("this kernel does not count what a thread waits for a processor: no /proc/thread-self/schedstat")
    command = [sys.executable, "-I", "-c", _GIVES_WAY, json.dumps(sys.path), str(_TURN)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
    assert done.returncode == 0, done.stderr
    waited, lag = json.loads(done.stdout)
    assert lag < _TURN <= waited
