"""What this machine takes for a plain thing, by which rows are judged whose targets were set in seconds.

Such a target holds for the machine that it was set on. Elsewhere it holds for as many bare interpreters, where work in
a process or a start is measured, or for as many calls between two plain asyncio processes, where messages are.
"""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.calls import INPUT
from bench.reference import AsyncioReference
from bench.row import Row, Target
from bench.sampling import Effort
from bench.timing import repeated, taken
from paddock.workers.runtime import base_interpreter

PASS: Final = ("-I", "-S", "-c", "pass")
_PASS_SECONDS: Final = 60  # for some milliseconds of work; hit only by a hang
_RUNS: Final = 15
_CALLS: Final = 600
# What they took on the machine that the targets in seconds were set on.
_INTERPRETER_THERE: Final = 8.0  # ms
_CALL_THERE: Final = 0.04  # ms
_INTERPRETER_ELSEWHERE: Final = 6.3  # ms, where the targets of whole commands and sessions were set
_PER_MS: Final = {"us": 1000.0, "ms": 1.0, "s": 0.001}


@dataclass(frozen=True, slots=True)
class Yardstick:
    """A plain thing that takes `here` milliseconds here, and took `there` where the targets were set."""

    name: str
    here: float
    there: float

    def row(self, what: str, measures: str, unit: str, ours: float, bound: float) -> Row:
        """Return the row of something that took `ours`, and may take as long as `bound` where the targets were set."""
        here, there = self.here * _PER_MS[unit], self.there * _PER_MS[unit]
        return Row(f"{what}, to {self.name}", measures, unit, ours, here, ours / here, Target(round(bound / there, 3)))

    def rate_row(self, what: str, measures: str, unit: str, ours: float, bound: float) -> Row:
        """Return the row of something done `ours` times a second, and `bound` times where the targets were set."""
        here, there = 1000 / self.here, 1000 / self.there
        target = Target(round(bound / there, 3), at_least=True)
        return Row(f"{what}, to {self.name}", measures, unit, ours, here, ours / here, target)


def in_bare_interpreters(seconds: float) -> Target:
    """Return the target of something that may take so long where a bare interpreter takes 6.3 ms."""
    return Target(round(seconds * 1000 / _INTERPRETER_ELSEWHERE, 1))


async def bare_interpreter(effort: Effort) -> Yardstick:
    """Measure an interpreter that does nothing, on the cores that this process runs on."""
    runs = [await asyncio.to_thread(run_bare_interpreter) for _ in range(effort.of(_RUNS))]
    return Yardstick("`python -c pass`", median(runs), _INTERPRETER_THERE)


async def plain_call(effort: Effort) -> Yardstick:
    """Measure a call without any check between two processes that run plain asyncio."""
    async with AsyncioReference.running() as reference:
        calls = await repeated(lambda: reference.call("execute", INPUT), effort.of(_CALLS))()
    return Yardstick("a plain call", median(calls) / 1000, _CALL_THERE)


async def pass_block() -> list[float]:
    """Run an interpreter that does nothing, as a block of one."""
    return [await asyncio.to_thread(run_bare_interpreter)]


def run_bare_interpreter() -> float:
    """Return the milliseconds from the start of an interpreter that does nothing to its end."""
    command = [base_interpreter(), *PASS]
    return taken(lambda: subprocess.run(command, check=True, close_fds=False, timeout=_PASS_SECONDS)) / 1000
