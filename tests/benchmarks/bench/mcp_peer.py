"""A small call beside the same call through the official client and server of MCP, over standard input and output."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from bench.calls import INPUT
from bench.child import Child
from bench.published import published_python
from bench.row import Row
from bench.sampling import Effort, interleave
from bench.stage import Stage

_PEER: Final = "mcp==2.3.0"
_ROUNDS: Final = 20
_CALLS: Final = 60  # in one block


async def measure_mcp(effort: Effort) -> list[Row]:
    """Measure both, each with its client and its server in processes of their own."""
    program = Path(__file__).with_name("mcp_child.py")
    async with Stage.open() as stage, Child.running([published_python(_PEER), program]) as peer:
        await stage.start("tool", "tool-echo")
        echo = stage.tool("echo")

        async def ours() -> list[float]:
            taken = []
            for _ in range(_CALLS):
                before = time.perf_counter_ns()
                await echo.execute(INPUT)
                taken.append((time.perf_counter_ns() - before) / 1000)
            return taken

        samples = await interleave(
            {"ours": ours, "mcp": lambda: peer.tell(input=INPUT, calls=_CALLS)}, effort.of(_ROUNDS)
        )
    return [
        Row.compared(
            "small call, to `mcp` over stdio",
            "A tool call of six arguments by the host, beside the same call by the official client and server of MCP.",
            "us",
            samples,
            ("ours", "mcp"),
        )
    ]
