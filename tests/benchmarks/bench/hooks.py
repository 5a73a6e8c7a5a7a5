"""One event heard by twenty handlers, in order, beside twenty calls of a tool."""

from __future__ import annotations

from typing import Final

from bench.calls import INPUT
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import Stage
from bench.timing import repeated

_HANDLERS: Final = 20
_ROUNDS: Final = 25
_EVENTS: Final = 10  # in one block
_ONE_WORKER, _MANY_WORKERS = "bench:one-worker", "bench:many-workers"

EVENT_DATA: Final = {"tool_name": "echo", "tool_call_id": "call_0123456789abcdef", "tool_input": INPUT}


async def measure_hooks(effort: Effort) -> list[Row]:
    """Measure the event with all handlers in one worker, and with a worker for each."""
    async with Stage.open() as stage:
        return await _measure_hooks(stage, effort.of(_ROUNDS))


async def _measure_hooks(stage: Stage, rounds: int) -> list[Row]:
    await stage.start("tool", "tool-echo")
    await stage.start("hook", "hooks-nod", {"event": _ONE_WORKER, "handlers": _HANDLERS})
    for _ in range(_HANDLERS):
        await stage.start("hook", "hooks-nod", {"event": _MANY_WORKERS, "handlers": 1})
    hooks = stage.coordinator.hooks
    echo = stage.tool("echo")

    async def calls() -> None:
        for _ in range(_HANDLERS):
            await echo.execute(INPUT)

    samples = await interleave(
        {
            "one worker": repeated(lambda: hooks.emit(_ONE_WORKER, EVENT_DATA), _EVENTS),
            "many workers": repeated(lambda: hooks.emit(_MANY_WORKERS, EVENT_DATA), _EVENTS),
            "calls": repeated(calls, _EVENTS),
        },
        rounds,
    )
    return [
        Row.compared(
            f"{_HANDLERS} hooks in order, one worker",
            "An event with as many handlers in one worker, called in order, beside as many small calls.",
            "us",
            samples,
            ("one worker", "calls"),
            Target(1.3),
        ),
        Row.compared(
            f"{_HANDLERS} hooks in order, {_HANDLERS} workers",
            "The same with a worker for each handler.",
            "us",
            samples,
            ("many workers", "calls"),
        ),
    ]
