"""Measure what module processes cost: `python tests/benchmarks/run.py` prints a table and writes `.bench/results.json`.

Everything runs on one core, because where the scheduler puts two processes decides more about a short call than any
code does. A missed target is reported and is no failure; the exit code is 1 only when something could not be measured.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing
from pathlib import Path

from bench.calls import measure_calls, measure_in_flight
from bench.contract import measure_contract
from bench.egress import measure_egress
from bench.hooks import measure_hooks
from bench.memory import measure_memory
from bench.payload import measure_payload
from bench.policy import measure_policy
from bench.reference import AsyncioReference, BareForks, BlockingReference, RawPayload, reference_children
from bench.report import summary, table, write_json
from bench.router import measure_checks
from bench.row import Row
from bench.sandbox import measure_many, measure_sandboxed_calls
from bench.sources import measure_sources
from bench.stage import Stage
from bench.start import measure_start
from bench.sub_session import measure_sub_session

_RESULTS = Path(__file__).resolve().parent.parent.parent / ".bench" / "results.json"


async def _measure() -> list[Row]:
    async with reference_children() as children, Stage.open() as stage:
        blocking, raw = BlockingReference(children["blocking"]), RawPayload(children["payload"])
        await stage.start("tool", "tool-echo")
        await stage.start("tool", "tool-echo", {"name": "echo_free"}, isolation="none")
        loop = await stage.start("orchestrator", "loop-timing")
        with closing(await AsyncioReference.open(children["asyncio"])) as asynchronous:
            calls = [
                *await measure_calls(stage, asynchronous, blocking),
                *await measure_in_flight(stage, asynchronous),
            ]
        return [
            *calls,
            *await measure_checks(stage, loop),
            *await measure_sandboxed_calls(stage),
            *await measure_payload(stage, raw),
            *await measure_start(stage),
            *await measure_many(stage, BareForks(children["forks"])),
            *await measure_memory(stage),
            *await measure_hooks(stage),
            *await measure_contract(stage),
            *measure_policy(),
            *await measure_egress(),
            *await measure_sources(),
            *await measure_sub_session(),
        ]


def main() -> int:
    """Measure, print and write; return the exit code."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        rows = asyncio.run(_measure())
    except Exception as error:
        print(f"not everything could be measured: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    write_json(rows, _RESULTS)
    print(table(rows))
    print(f"\n{summary(rows)}\nWritten to {_RESULTS}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
