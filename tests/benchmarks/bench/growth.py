"""What a module costs among few others and among many: the curve that has to be flat."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from bench.row import NotMeasured, Row, Target
from bench.sampling import Effort
from bench.stage import Stage
from bench.yardstick import PASS
from paddock.workers.runtime import base_interpreter

_COUNTS: Final = (10, 100, 200, 400)
_QUICK_COUNTS: Final = (2, 4)
_BARE_RUNS: Final = 9  # before each number, and after it


async def measure_growth(effort: Effort) -> list[Row]:
    """Measure the CPU time of a module, of several numbers that start side by side, beside a bare interpreter's."""
    counts = _COUNTS if effort is Effort.FULL else _QUICK_COUNTS
    runs = effort.of(_BARE_RUNS)
    seconds: dict[int, float] = {}
    rows = []
    for count in counts:
        bares = [_bare_interpreter() for _ in range(runs)]
        cpu, seconds[count] = await _start(count)
        # Before and after: a machine that has become slower meanwhile must not look like growth.
        bare = median([*bares, *(_bare_interpreter() for _ in range(runs))])
        rows.append(
            Row(
                f"CPU time of a module, of {count} side by side, to `python -c pass`",
                "From start to first reply, in the host and all processes it started, beside a bare interpreter.",
                "ms",
                cpu,
                bare,
                cpu / bare,
                Target(1.3),
            )
        )
    few, many = (100, 200) if effort is Effort.FULL else counts
    return [
        *rows,
        Row(
            f"{many} modules started and called, to {few}",
            "Side by side, up to the first reply of each.",
            "s",
            seconds[many],
            seconds[few],
            seconds[many] / seconds[few],
            Target(2.0),
        ),
    ]


async def _start(count: int) -> tuple[float, float]:
    """Return a module's milliseconds of CPU time, and the seconds that all took together.

    Each number is started by a stage of its own, whose template has served one module before.
    """
    names = [f"one_of_{count}_{number}" for number in range(count)]
    async with Stage.open() as stage:
        await stage.start("tool", "tool-trivial", {"name": "warm"})
        starts = [await stage.cast("tool", "tool-trivial", {"name": name}) for name in names]
        cpu, before = _cpu_time(), time.perf_counter()
        await asyncio.gather(*(start() for start in starts))
        await asyncio.gather(*(stage.tool(name).execute({}) for name in names))
        taken = time.perf_counter() - before
        return (_cpu_time() - cpu) / count, taken


def _cpu_time() -> float:
    """Return the milliseconds that the living threads of this process and of all below it have run.

    The kernel's own counts of nanoseconds: a process that lives for 20 ms gets a tick of 10 ms or none.
    """
    me = psutil.Process()
    files = [
        file
        for process in (me, *me.children(recursive=True))
        for file in Path("/proc", str(process.pid), "task").glob("*/schedstat")
    ]
    if not files:
        raise NotMeasured("the kernel does not count how long a process has run (/proc/PID/schedstat)")
    return sum(_run_time(file) for file in files)


def _run_time(file: Path) -> float:
    try:
        return int(file.read_text().split()[0]) / 1e6
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return 0.0


def _bare_interpreter() -> float:
    """Return the milliseconds of CPU time of an interpreter that does nothing."""
    command = [base_interpreter(), *PASS]
    process = os.posix_spawn(command[0], command, os.environ)
    _, _, used = os.wait4(process, 0)
    return (used.ru_utime + used.ru_stime) * 1e3
