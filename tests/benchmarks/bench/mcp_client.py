"""A small call of an MCP server by our client, beside the same by the official one, without a host and a sandbox."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from bench.calls import INPUT
from bench.child import Child
from bench.row import Row, Target
from bench.sampling import Effort, interleave
from paddock_sdk.mcp.client import Client

_ROUNDS: Final = 20
_CALLS: Final = 60  # in one block


async def measure_mcp_client(effort: Effort) -> list[Row]:
    """Measure both, each with a process of the same server."""
    program = Path(__file__).with_name("mcp_child.py")
    client = await Client.start([sys.executable, str(program), "serve"])

    async def ours() -> list[float]:
        taken = []
        for _ in range(_CALLS):
            before = time.perf_counter_ns()
            answer = await client.call_tool("echo", INPUT)
            taken.append((time.perf_counter_ns() - before) / 1000)
            assert not answer["isError"], answer
        return taken

    try:
        async with Child.running([sys.executable, program]) as peer:
            cases = {"ours": ours, "official": lambda: peer.tell(input=INPUT, calls=_CALLS)}
            samples = await interleave(cases, effort.of(_ROUNDS))
    finally:
        await client.close()
    return [
        Row.compared(
            "call of an MCP server by our client",
            "A tool call of six arguments by our client, beside the official client's to the same server.",
            "us",
            samples,
            ("ours", "official"),
            Target(1.0),
        )
    ]
