"""What the contract costs across processes, beside the same modules in one plain process and the published package.

Without the published package there is nothing to compare with; its rows are then said to be not measured.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.child import Child
from bench.hooks import EVENT_DATA
from bench.published import published_python
from bench.reference import AsyncioReference
from bench.row import Row, Target
from bench.sampling import Block, Effort, Samples, interleave
from bench.stage import MODULES, Stage, turns_of
from bench.timing import repeated
from bench.yardstick import bare_interpreter, plain_call
from paddock import Session
from paddock_sources.builtin import BuiltinSource

_REPOSITORY: Final = Path(__file__).resolve().parents[3]
BUILTIN: Final = _REPOSITORY / "modules"
OWN_PATH: Final = os.pathsep.join(str(_REPOSITORY / "sdk" / part) for part in ("", "paddock_sdk/stand_in"))
_ROUNDS: Final = 25
_EVENTS: Final = 20
_TURNS: Final = 8
_LONG_TURNS: Final = 100  # of one conversation, each of four messages and two requests
_COMPARED_TURNS: Final = 20  # at its beginning and at its end
_LONG_ROUNDS: Final = 3
_READ_SESSIONS: Final = 5
_HEARD_ELSEWHERE: Final = "bench:elsewhere"


async def measure_event(effort: Effort) -> list[Row]:
    """Measure an event with a handler in another process beside the published package's in its own."""
    async with (
        Stage.open() as stage,
        _in_process(published_python()) as published,
        AsyncioReference.running() as asynchronous,
    ):
        await stage.start("hook", "hooks-nod", {"event": _HEARD_ELSEWHERE, "handlers": 1})
        hooks = stage.coordinator.hooks
        cases: dict[str, Block] = {
            "ours": repeated(lambda: hooks.emit(_HEARD_ELSEWHERE, EVENT_DATA), _EVENTS),
            "plain": repeated(lambda: asynchronous.call("event", EVENT_DATA), _EVENTS),
            "published": lambda: published.tell(events=_EVENTS),
        }
        samples = await interleave(cases, effort.of(_ROUNDS))
    return [
        Row.compared(
            "an event heard in another process, to amplifier-core in process",
            "An event that a hook in another worker handles, beside one that the published package handles in process.",
            "us",
            samples,
            ("ours", "published"),
            Target(0.45),
        ),
        Row.compared(
            "  its data there and back by plain asyncio, to amplifier-core in process",
            "The same data to another process and an answer by plain asyncio, without any check, beside the same.",
            "us",
            samples,
            ("plain", "published"),
        ),
    ]


async def measure_turn(effort: Effort) -> list[Row]:
    """Measure a turn beside the same modules in one process, on the same implementation of the contract."""
    samples = await _turns(_in_process(sys.executable, {"PYTHONPATH": OWN_PATH}), effort.of(_ROUNDS))
    ours, plain = samples.p50("workers") / 1000, samples.p50("plain") / 1000
    yardstick = await plain_call(effort)
    return [
        Row(
            "a turn with one tool call, five kinds of modules",
            "A prompt, a tool call and the answer of a scripted provider, beside the same modules in one process.",
            "ms",
            ours,
            plain,
        ),
        yardstick.row(
            "  of it Paddock's: what a plain process does without",
            "How much longer the turn takes for its modules being in workers.",
            "ms",
            ours - plain,
            3.0,
        ),
    ]


async def measure_published_turn(effort: Effort) -> list[Row]:
    """Measure a turn beside the same modules in one process, on the published package."""
    samples = await _turns(_in_process(published_python()), effort.of(_ROUNDS))
    return [
        Row.compared(
            "a turn with one tool call, to amplifier-core in process",
            "The same turn beside the same modules in one process on the published package.",
            "us",
            samples,
            ("workers", "plain"),
        )
    ]


async def measure_conversation(effort: Effort) -> list[Row]:
    """Measure how much longer turns take at the end of a long conversation, beside the published package in process."""
    turns = effort.of(_LONG_TURNS, 2 * _COMPARED_TURNS)
    samples = await _turns(_in_process(published_python()), effort.of(_LONG_ROUNDS), turns, _growth_of)
    return [
        Row.compared(
            f"growth of a turn over {_LONG_TURNS} turns, to amplifier-core in process",
            "How much longer a turn takes at the end of a conversation than at its beginning, to the same in process.",
            "us",
            samples,
            ("workers", "plain"),
            Target(1.5),
        )
    ]


async def _turns(
    in_process: AbstractAsyncContextManager[Child],
    rounds: int,
    turns: int = _TURNS,
    read: Callable[[list[float]], list[float]] = list,
) -> Samples:
    """Return what `read` makes of the microseconds of so many turns in a row, of a conversation that begins empty."""
    async with Session(_compared_plan(), trust_plan=True) as session, in_process as plain:

        async def workers() -> list[float]:
            return read(await turns_of(session, turns)())

        async def one_process() -> list[float]:
            return read(await plain.tell(turns=turns))

        return await interleave({"workers": workers, "plain": one_process}, rounds)


def _growth_of(turns: list[float]) -> list[float]:
    return [median(turns[-_COMPARED_TURNS:]) - median(turns[:_COMPARED_TURNS])]


def _in_process(python: str | Path, environ: dict[str, str] | None = None) -> AbstractAsyncContextManager[Child]:
    """Have the plan's modules in one process of an interpreter whose path has `amplifier_core`."""
    plan = _compared_plan()
    session = plan["session"]
    entries = [session["orchestrator"], session["context"], *plan["providers"], *plan["tools"], *plan["hooks"]]
    folders = {entry["module"]: str(_folder(entry["module"])) for entry in entries}
    program = Path(__file__).with_name("in_process_child.py")
    return Child.running([python, program, *map(json.dumps, (plan, folders, EVENT_DATA))], environ or {})


def _compared_plan() -> dict[str, Any]:
    """Return the plan of turns that are compared; its loop shows hooks no conversation.

    No hook asks for it. The published package does not tell a loop so, which would prepare it there alone.
    """
    plan = plan_of("loop-basic")
    plan["session"]["orchestrator"]["config"] = {"show_messages": False}
    return plan


async def measure_reads(effort: Effort) -> list[Row]:
    """Measure what modules read without waiting, and their import of the contracts."""
    taken: list[dict[str, float]] = []
    for _ in range(effort.of(_READ_SESSIONS)):
        async with Session(plan_of("loop-reading"), trust_plan=True) as session:
            taken.append(json.loads(await session.execute("")))
    best = {name: sorted(one[name] for one in taken)[len(taken) // 2] for name in taken[0]}
    imported = best.pop("import") / 1e6
    slowest = max(best, key=lambda name: best[name])
    call, interpreter = await plain_call(effort), await bare_interpreter(effort)
    return [
        call.row(
            "a read of mirrored state, the slowest",
            f"What a module reads of the session without asking the host; the slowest is `{slowest}`.",
            "us",
            best[slowest] / 1000,
            2.0,
        ),
        interpreter.row(
            "importing the contracts in a forked worker",
            "`import amplifier_core` by a module whose worker was forked from the template.",
            "ms",
            imported,
            2.0,
        ),
    ]


def plan_of(loop: str) -> dict[str, Any]:
    """Return the plan of a session of five kinds of modules with a loop."""

    def entry(module: str, config: dict[str, Any] | None = None) -> dict[str, Any]:
        folder = _folder(module)
        source = f"builtin:{module}" if folder.is_relative_to(BUILTIN) else str(folder)
        return {"module": module, "source": source, "config": config or {}}

    return {
        "session": {"orchestrator": entry(loop), "context": entry("context-simple")},
        "providers": [entry("provider-turns")],
        "tools": [entry("tool-trivial", {"name": "trivial"})],
        "hooks": [entry("hooks-nod", {"event": "tool:post", "handlers": 1})],
    }


def _folder(module: str) -> Path:
    own = MODULES / module
    return own if own.exists() else BuiltinSource().resolve(module).root
