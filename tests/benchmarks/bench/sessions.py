"""Whole sessions on one host beside sessions with a host each: how many a second, how soon, and how much memory.

Each has three modules and answers one prompt. On every core there is: what starts side by side is what is measured.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import psutil

from bench.affinity import every_core
from bench.child import Child
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import SMALL_PLAN
from paddock import Host, Session

_AT_ONCE: Final = (1, 4, 16)
_ROUNDS: Final = 5
_SECONDS: Final = 60.0
_RESIDENT: Final = 8
_MIB: Final = 1 << 20
_BENCHMARKS: Final = Path(__file__).resolve().parent.parent


async def measure_sessions(effort: Effort) -> list[Row]:
    """Measure sessions at 1, 4 and 16 at once, the start of a further one, and what it adds to the host."""
    with every_core():
        async with Host() as host:
            await _run(host)
            rows = await _rows(host, effort)
        return [*rows, await _measure_memory(effort.of(_RESIDENT, 1))]


async def _rows(host: Host, effort: Effort) -> list[Row]:
    cases = {}
    for number in _AT_ONCE if effort is Effort.FULL else _AT_ONCE[:1]:
        cases[f"shared {number}"] = partial(_rate, host, number)
        cases[f"own {number}"] = partial(_rate, None, number)
    cases["further"], cases["first"] = partial(_start, host), partial(_start, None)
    samples = await interleave(cases, effort.of(_ROUNDS, 1), _SECONDS)
    rates = [
        Row.compared(
            f"sessions a second, {case.split()[1]} at once, on one host, to a host each",
            "Opened, one prompt answered, closed, all of them begun together.",
            "1/s",
            samples,
            (case, case.replace("shared", "own")),
            Target(2.0, at_least=True),
        )
        for case in cases
        if case.startswith("shared")
    ]
    start = Row.compared(
        "start of a further session of a host, to one with its own",
        "Until it is open, all three modules mounted.",
        "ms",
        samples,
        ("further", "first"),
        Target(0.5),
    )
    return [*rates, start]


async def _run(host: Host | None) -> None:
    async with Session(SMALL_PLAN, host=host) as session:
        await session.execute("hello")


async def _rate(host: Host | None, number: int) -> list[float]:
    before = time.perf_counter()
    async with asyncio.TaskGroup() as running:
        for _ in range(number):
            running.create_task(_run(host))
    return [number / (time.perf_counter() - before)]


async def _start(host: Host | None) -> list[float]:
    before = time.perf_counter_ns()
    async with Session(SMALL_PLAN, host=host):
        return [(time.perf_counter_ns() - before) / 1e6]


async def _measure_memory(count: int) -> Row:
    """Measure it in a process of its own: this one has room left from what it measured before."""
    command = "import asyncio, sys, bench.sessions; print(asyncio.run(bench.sessions.growth(int(sys.argv[1]))))"
    async with Child.running([sys.executable, "-c", command, str(count)], cwd=_BENCHMARKS) as child:
        found = await child.tell()
    return Row(
        "memory of a further session, beyond its workers (USS)",
        "What the host's process and those that sessions share grow by, for each that is open beside others.",
        "MiB",
        found,
        target=Target(1.0),
    )


async def growth(count: int) -> float:
    """Return by how many MiB so many further sessions make this process and its children grow, on the average."""
    found = []
    async with Host() as host, AsyncExitStack() as sessions:
        for _ in range(count + 1):
            session = await sessions.enter_async_context(Session(SMALL_PLAN, host=host))
            await session.execute("hello")
            gc.collect()
            found.append(_used())
    return (found[-1] - found[0]) / count


def _used() -> float:
    """Return the memory that this process and its children share with no other; workers are children of a child."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    pids = [os.getpid(), *map(int, children)]
    return sum(float(psutil.Process(pid).memory_full_info().uss) for pid in pids) / _MIB
