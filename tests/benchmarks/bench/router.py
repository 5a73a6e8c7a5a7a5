"""What the router's checks take of a call from one worker to another, and what noting attempts costs a module.

The checks are timed as all that the router does with a request short of sending it on, so that the figure is above what
they take. A module's attempts are noted for each file that it opens.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median
from typing import Final

import anyio

from bench.calls import INPUT
from bench.row import Row, Target
from bench.sampling import Effort
from bench.stage import Stage
from paddock.rpc.peer import Handle
from paddock.session.module import HostedModule
from paddock_sdk.protocol import Frame, Kind

_ROUNDS: Final = 30
_CALLS: Final = 150
_REPEATS: Final = 2000  # of what takes microseconds, in one round


_OPEN: Final = """
import sys, time
from paddock_sdk.worker.attempts.noticing import AttemptRecorder
if sys.argv[1:]:
    AttemptRecorder().install()
taken = []
for _ in range(20):
    before = time.perf_counter_ns()
    for _ in range(1000):
        open("/etc/passwd").close()
    taken.append(time.perf_counter_ns() - before)
print(min(taken) / 1000 / 1000)
"""


async def measure_checks(effort: Effort) -> list[Row]:
    """Measure the checks beside the brokered calls of an orchestrator, and the notes of opened files."""
    async with Stage.open() as stage:
        await stage.start("tool", "tool-echo")
        loop = await stage.start("orchestrator", "loop-timing")
        checks = await _measure_checks(stage, loop, effort.of(_ROUNDS))
    return [checks, await _opening()]


async def _measure_checks(stage: Stage, loop: HostedModule, rounds: int) -> Row:
    echo = stage.coordinator.get("tools", "echo")
    handle = loop._router.marshaller.handle_of(echo)
    assert isinstance(handle, Handle), "a tool lives in a worker"
    order = json.dumps({"tool": "echo", "calls": _CALLS, "input": INPUT})
    turn = stage.coordinator.get("orchestrator")
    checks, calls = [], []
    for _ in range(rounds):
        calls.append(median(json.loads(await turn.execute(order))) / 1000)
        checks.append(_checks(loop, handle))
    ratio = median(check / call for check, call in zip(checks, calls, strict=True))
    return Row(
        "router checks, to a brokered call",
        "What the router checks of one call, without sending it, beside the whole of a brokered call.",
        "us",
        median(checks),
        median(calls),
        ratio,
        Target(0.03),
    )


def _checks(loop: HostedModule, handle: Handle) -> float:
    peer, router = loop.peer, loop._router
    target = peer.granted(handle)
    assert target is not None, "an orchestrator knows every tool"
    request = Frame(Kind.REQUEST, 0, 0, 1 << 30, target, 0, 0, (), b"\x92\x90\x80")
    send, router._send = router._send, lambda forward: None  # type: ignore[method-assign]
    try:
        before = time.perf_counter_ns()
        for _ in range(_REPEATS):
            router.on_request(peer, request)
            del peer.incoming[request.id]
        return (time.perf_counter_ns() - before) / 1000 / _REPEATS
    finally:
        router._send = send  # type: ignore[method-assign]


async def _opening() -> Row:
    """Measure opening a file with the worker's notes and without, in processes that do nothing else."""
    with_notes, without = await _timed_child(is_noted=True), await _timed_child(is_noted=False)
    about = "Opening a file in a worker that notes refused accesses, beside one that does not."
    return Row("opening a file, with notes of it", about, "us", with_notes, without, with_notes / without)


async def _timed_child(*, is_noted: bool) -> float:
    ran = await anyio.run_process([sys.executable, "-c", _OPEN, *(["noted"] if is_noted else [])])
    return float(ran.stdout)
