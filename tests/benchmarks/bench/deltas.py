"""Deltas of a streamed answer, each an event that a provider emits and a hook of another worker handles."""

from __future__ import annotations

import time
from typing import Any, Final

from bench.row import Row
from bench.sampling import Effort, interleave
from bench.stage import MODULES, Stage
from bench.yardstick import plain_call
from paddock import Session
from paddock_sdk.contract.message_models import ChatRequest, Message

_ROUNDS: Final = 10
_DELTAS: Final = 2000  # of one answer; a long one
_IN_FLIGHT: Final = 16
_EVENT: Final = "llm:stream_block_delta"


async def measure_deltas(effort: Effort) -> list[Row]:
    """Measure deltas that a provider emits itself, and those that loop-streaming passes on."""
    return [*await _measure_emitted(effort), *await _measure_passed_on(effort.of(_ROUNDS))]


async def _measure_emitted(effort: Effort) -> list[Row]:
    async with Stage.open() as stage:
        hook = await stage.start("hook", "hooks-nod", {"event": _EVENT, "handlers": 1})
        speaker = await stage.start("provider", "provider-deltas")
        provider = stage.coordinator.get("providers")["deltas"]

        async def rate(in_flight: int) -> list[float]:
            order = {"deltas": _DELTAS, "in_flight": in_flight}
            asked = ChatRequest(messages=[Message(role="user", content="go")], metadata=order)
            return [(await provider.complete(asked)).metadata["rate"]]

        samples = await interleave({"one": lambda: rate(1), "many": lambda: rate(_IN_FLIGHT)}, effort.of(_ROUNDS))
        if speaker.denials or speaker.reports or hook.reports:
            raise RuntimeError("deltas were dropped, or a module was ended")
    yardstick = await plain_call(effort)
    return [
        yardstick.rate_row(
            "deltas provider to hook, awaited one by one",
            "How many deltas a second a provider emits that each wait until a hook in another worker has handled it.",
            "deltas/s",
            samples.p50("one"),
            5000,
        ),
        yardstick.rate_row(
            f"deltas provider to hook, {_IN_FLIGHT} in flight",
            f"The same while {_IN_FLIGHT} wait at any time.",
            "deltas/s",
            samples.p50("many"),
            10_000,
        ),
    ]


async def _measure_passed_on(rounds: int) -> list[Row]:
    async with Session(_plan(), trust_plan=True) as session:
        context = session.coordinator.get("context")

        async def rate() -> list[float]:
            await context.clear()
            before = time.perf_counter()
            await session.execute(str(_DELTAS))
            return [_DELTAS / (time.perf_counter() - before)]

        samples = await interleave({"passed on": rate}, rounds)
    about = "How many deltas of a provider's stream loop-streaming passes on to the hook in a second."
    return [Row("  streamed through loop-streaming, in order", about, "deltas/s", samples.p50("passed on"))]


def _plan() -> dict[str, Any]:
    return {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "provider-deltas", "source": str(MODULES / "provider-deltas")}],
        "hooks": [
            {"module": "hooks-nod", "source": str(MODULES / "hooks-nod"), "config": {"event": _EVENT, "handlers": 1}}
        ],
    }
