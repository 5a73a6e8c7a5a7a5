"""A small call beside the same call through the official client and server of MCP, over standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.calls import INPUT
from bench.child import Child
from bench.published import published_python
from bench.row import Row
from bench.sampling import Block, Effort, interleave
from bench.stage import Stage
from bench.timing import repeated

_PEER: Final = "mcp==2.3.0"
_ROUNDS: Final = 20
_CALLS: Final = 60  # in one block


async def measure_mcp(effort: Effort) -> list[Row]:
    """Measure both, each with its client and its server in processes of their own."""
    program = Path(__file__).with_name("mcp_child.py")
    async with Stage.open() as stage, Child.running([published_python(_PEER), program]) as peer:
        await stage.start("tool", "tool-echo")
        echo = stage.tool("echo")
        cases: dict[str, Block] = {
            "ours": repeated(lambda: echo.execute(INPUT), _CALLS),
            "mcp": lambda: peer.tell(input=INPUT, calls=_CALLS),
        }
        samples = await interleave(cases, effort.of(_ROUNDS))
    return [
        Row.compared(
            "small call, to `mcp` over stdio",
            "A tool call of six arguments by the host, beside the same call by the official client and server of MCP.",
            "us",
            samples,
            ("ours", "mcp"),
        )
    ]
