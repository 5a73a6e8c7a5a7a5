"""What the sandbox costs: for each call, and when many modules start at once."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from bench.affinity import every_core
from bench.calls import INPUT
from bench.reference import BareForks, reference_child
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import Stage
from bench.timing import repeated
from bench.yardstick import bare_interpreter, in_bare_interpreters

_ROUNDS: Final = 30
_CALLS: Final = 150  # in one block
_STARTS: Final = 5  # of many modules at once
_AT_ONCE: Final = 30
_MANY: Final = 100


async def measure_sandboxed_calls(effort: Effort) -> list[Row]:
    """Measure the same call into a worker that is shut in and into one that is not."""
    async with Stage.open() as stage:
        await stage.start("tool", "tool-echo")
        await stage.start("tool", "tool-echo", {"name": "echo_free"}, isolation="none")
        tools = {"shut in": stage.tool("echo"), "free": stage.tool("echo_free")}
        cases = {name: repeated(lambda tool=tool: tool.execute(INPUT), _CALLS) for name, tool in tools.items()}
        samples = await interleave(cases, effort.of(_ROUNDS))
    return [
        Row.compared(
            "small call, shut in, to not shut in",
            "A tool call into a sandbox, beside one into a worker at level `none`.",
            "us",
            samples,
            ("shut in", "free"),
            Target(1.03),
        )
    ]


async def measure_many(effort: Effort) -> list[Row]:
    """Measure many starts at once beside as many forks that do nothing, and a hundred up to their first replies.

    On every core, which is what many modules run on.
    """
    with every_core():
        async with Stage.open() as stage, reference_child("forks") as rpc:
            return await _measure_many(stage, BareForks(rpc), effort)


async def _measure_many(stage: Stage, forks: BareForks, effort: Effort) -> list[Row]:

    few, many = effort.of(_AT_ONCE, 5), effort.of(_MANY, 10)

    async def at_once() -> list[float]:
        return [await _start(stage, few, call=False)]

    async def bare() -> list[float]:
        before = time.perf_counter()
        forks.fork(few)
        return [time.perf_counter() - before]

    async def hundred() -> list[float]:
        return [await _start(stage, many, call=True)]

    samples = await interleave({"at once": at_once, "bare": bare, "hundred": hundred}, effort.of(_STARTS))
    more = samples.p50("at once") - samples.p50("bare")
    yardstick = await bare_interpreter(effort)
    return [
        Row(
            f"{few} modules started at once",
            "Side by side, up to their being mounted, beside as many forks that do nothing.",
            "s",
            samples.p50("at once"),
            samples.p50("bare"),
        ),
        yardstick.row(f"  more than {few} bare forks", "What the modules take beyond the forks.", "s", more, 0.3),
        Row(
            f"{many} modules started and called, to {yardstick.name}",
            "Side by side, up to the first reply of each.",
            "s",
            samples.p50("hundred"),
            yardstick.here / 1000,
            samples.p50("hundred") * 1000 / yardstick.here,
            in_bare_interpreters(0.8),
        ),
    ]


async def _start(stage: Stage, count: int, *, call: bool) -> float:
    """Return the seconds it takes to have so many modules mounted, and called if they are to be."""
    names = [f"one_of_many_{number}" for number in range(count)]
    starts = [await stage.cast("tool", "tool-trivial", {"name": name}) for name in names]
    before = time.perf_counter()
    modules = await asyncio.gather(*(start() for start in starts))
    if call:
        await asyncio.gather(*(stage.tool(name).execute({}) for name in names))
    taken = time.perf_counter() - before
    await stage.stop(modules, names)
    return taken
