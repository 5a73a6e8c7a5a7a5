"""A mebibyte as an argument of a tool, beside the same bytes through a bare socket pair."""

from __future__ import annotations

import os
from typing import Final

from bench.reference import RawPayload, reference_child
from bench.reference_child import PAYLOAD_BYTES
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from bench.stage import Stage
from bench.timing import called, repeated

_ROUNDS: Final = 30
_PUSHES: Final = 10  # in one block


async def measure_payload(effort: Effort) -> list[Row]:
    """Measure the time until the tool, or the other end of the socket, has said that it has everything."""
    async with Stage.open() as stage, reference_child("payload") as rpc:
        await stage.start("tool", "tool-echo")
        return await _measure_payload(stage, RawPayload(rpc), effort.of(_ROUNDS))


async def _measure_payload(stage: Stage, raw: RawPayload, rounds: int) -> list[Row]:
    payload = os.urandom(PAYLOAD_BYTES)
    swallow = stage.tool("swallow")

    async def push() -> None:
        result = await swallow.execute({"data": payload})
        if result.output != PAYLOAD_BYTES:
            raise RuntimeError(f"the tool got {result.output!r}")

    cases = {"ours": repeated(push, _PUSHES), "raw": called(lambda: raw.push(payload), _PUSHES)}
    samples = await interleave(cases, rounds)
    return [
        Row.compared(
            "1 MiB one way, to a bare socket",
            "A mebibyte as an argument of a tool, until the tool has it, beside the same through a bare socket pair.",
            "us",
            samples,
            ("ours", "raw"),
            Target(2.5),
        )
    ]
