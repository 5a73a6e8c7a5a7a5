"""A module from its plan entry to its first reply, shut in or not, beside an interpreter that does nothing."""

from __future__ import annotations

import time
from typing import Final, Literal

from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import Stage
from bench.yardstick import pass_block

_ROUNDS: Final = 20


async def measure_start(effort: Effort) -> list[Row]:
    """Measure a start by fork and a start by exec."""
    async with Stage.open() as stage:
        return await _measure_start(stage, effort.of(_ROUNDS))


async def _measure_start(stage: Stage, rounds: int) -> list[Row]:
    started = 0

    async def started_by(spawn: Literal["template", "exec"], isolation: str | None = None) -> list[float]:
        nonlocal started
        started += 1
        name = f"started_{started}"
        start = await stage.cast("tool", "tool-trivial", {"name": name}, spawn=spawn, isolation=isolation)
        before = time.perf_counter_ns()
        module = await start()
        await stage.tool(name).execute({})
        taken = (time.perf_counter_ns() - before) / 1e6
        await stage.stop([module], [name])
        return [taken]

    samples = await interleave(
        {
            "template": lambda: started_by("template"),
            "free": lambda: started_by("template", "none"),
            "exec": lambda: started_by("exec"),
            "pass": pass_block,
        },
        rounds,
    )
    return [
        Row.compared(
            "start to first reply, template, to `python -c pass`",
            "A module forked from the template, from start to first reply, beside an interpreter that does nothing.",
            "ms",
            samples,
            ("template", "pass"),
            Target(0.8),
        ),
        Row.compared(
            "  start to first reply, template, not shut in, to `python -c pass`",
            "The same at level `none`.",
            "ms",
            samples,
            ("free", "pass"),
        ),
        Row.compared(
            "start to first reply, exec, to `python -c pass`",
            "The same of a module that has an interpreter of its own started.",
            "ms",
            samples,
            ("exec", "pass"),
        ),
    ]
