"""Small calls: one after the other, through the host from one worker to another, and many at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from bench.reference import AsyncioReference, BlockingReference, ResultReference, reference_child
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import Stage
from bench.timing import called, repeated

_ROUNDS: Final = 30
_CALLS: Final = 150  # in one block
_IN_FLIGHT: Final = 64
_CALLS_EACH: Final = 30  # by each of those in flight

INPUT: Final = {
    "path": "/srv/project/src/package/module.py",
    "query": "the words that are looked for",
    "limit": 100,
    "recursive": True,
    "include": ["*.py", "*.toml"],
    "exclude": "build/** dist/** .venv/**",
}


async def measure_calls(effort: Effort) -> list[Row]:
    """Measure a call of a tool by the host, and by an orchestrator in another worker."""
    async with (
        Stage.open() as stage,
        AsyncioReference.running() as asynchronous,
        ResultReference.running() as with_results,
        reference_child("blocking") as rpc,
    ):
        await stage.start("tool", "tool-echo")
        await stage.start("orchestrator", "loop-timing")
        references = _References(asynchronous, with_results, BlockingReference(rpc))
        return await _measure_calls(stage, references, effort.of(_ROUNDS))


@dataclass(frozen=True, slots=True)
class _References:
    asyncio: AsyncioReference
    results: ResultReference
    blocking: BlockingReference


async def _measure_calls(stage: Stage, references: _References, rounds: int) -> list[Row]:
    echo = stage.tool("echo")
    turn = stage.coordinator.get("orchestrator")
    order = json.dumps({"tool": "echo", "calls": _CALLS, "input": INPUT})

    async def brokered() -> list[float]:
        return [taken / 1000 for taken in json.loads(await turn.execute(order))]

    samples = await interleave(
        {
            "direct": repeated(lambda: echo.execute(INPUT), _CALLS),
            "asyncio": repeated(lambda: references.asyncio.call("execute", INPUT), _CALLS),
            "results": repeated(lambda: references.results.call("execute", INPUT), _CALLS),
            "blocking": called(lambda: references.blocking.call("execute", INPUT), _CALLS),
            "brokered": brokered,
        },
        rounds,
    )
    direct, p99 = samples.p50("direct"), samples.p99("direct")
    asyncio_tail = samples.p99("asyncio") / samples.p50("asyncio")
    return [
        Row.compared(
            "small call, to asyncio",
            "A tool call of six arguments by the host, beside the same bytes through plain asyncio without any check.",
            "us",
            samples,
            ("direct", "asyncio"),
            Target(1.35),
        ),
        Row.compared(
            "  asyncio with checked results, to asyncio",
            "Plain asyncio whose tool makes the contract's result, and whose host validates it, beside plain asyncio.",
            "us",
            samples,
            ("results", "asyncio"),
        ),
        Row.compared(
            "small call, to blocking",
            "The same call beside the least that the machine can do: blocking sockets, one side waiting for the other.",
            "us",
            samples,
            ("direct", "blocking"),
            Target(3.3),
        ),
        Row(
            "small call p99, to its p50",
            "The slowest of a hundred such calls beside the usual one.",
            "us",
            p99,
            direct,
            p99 / direct,
            Target(3.0),
        ),
        Row(
            "  small call p99 of asyncio, to its p50",
            "The same of plain asyncio, which shows what of it is the machine's.",
            "us",
            samples.p99("asyncio"),
            samples.p50("asyncio"),
            asyncio_tail,
        ),
        Row.compared(
            "brokered call, to direct",
            "A tool call by an orchestrator in another worker, which the host passes on, beside one by the host.",
            "us",
            samples,
            ("brokered", "direct"),
            Target(2.3),
        ),
    ]


async def measure_in_flight(effort: Effort) -> list[Row]:
    """Measure the rate of calls when many wait at any time."""
    async with (
        Stage.open() as stage,
        AsyncioReference.running() as asynchronous,
        ResultReference.running() as with_results,
    ):
        await stage.start("tool", "tool-echo")
        echo = stage.tool("echo")
        samples = await interleave(
            {
                "ours": lambda: _rate(lambda: echo.execute(INPUT)),
                "asyncio": lambda: _rate(lambda: asynchronous.call("execute", INPUT)),
                "results": lambda: _rate(lambda: with_results.call("execute", INPUT)),
            },
            effort.of(_ROUNDS),
        )
    return [
        Row.compared(
            f"{_IN_FLIGHT} calls in flight",
            f"How many tool calls are answered in a second while {_IN_FLIGHT} wait at any time, beside plain asyncio.",
            "calls/s",
            samples,
            ("ours", "asyncio"),
            Target(0.8, at_least=True),
        ),
        Row.compared(
            f"  {_IN_FLIGHT} in flight with checked results, to asyncio",
            "The rate of plain asyncio with the contract's results made and validated, beside plain asyncio.",
            "calls/s",
            samples,
            ("results", "asyncio"),
        ),
    ]


async def _rate(call: Callable[[], Awaitable[Any]]) -> list[float]:
    async def caller() -> None:
        for _ in range(_CALLS_EACH):
            await call()

    before = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(_IN_FLIGHT)))
    return [_IN_FLIGHT * _CALLS_EACH / (time.perf_counter() - before)]
