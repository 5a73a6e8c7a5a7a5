"""An official client of MCP, and the server that it starts, which other arguments name; `serve` makes this the server.

The client reads one order a line, `{"input": {…}, "calls": 150}`, calls a tool so often, one call after the other, and
answers with the microseconds that each took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer

_REPLY = {
    "path": "/srv/project/src/package/module.py",
    "found": True,
    "lines": [12, 48, 131],
    "text": "the third line of the answer is the longest of them all, by a word or two",
}


def _serve() -> None:
    server = MCPServer("bench", log_level="ERROR")

    @server.tool()
    def echo(path: str, query: str, limit: int, recursive: bool, include: list[str], exclude: str) -> dict[str, Any]:
        """Answer with a small mapping."""
        return _REPLY

    server.run("stdio")


async def _call() -> None:
    command, *args = sys.argv[1:] or [sys.executable, __file__, "serve"]
    server = StdioServerParameters(command=command, args=args)
    async with Client(server) as client:
        for line in sys.stdin:
            order = json.loads(line)
            taken = []
            for _ in range(order["calls"]):
                before = time.perf_counter_ns()
                answer = await client.call_tool("echo", order["input"])
                taken.append((time.perf_counter_ns() - before) / 1000)
                assert not answer.is_error, answer
            print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    _serve() if sys.argv[1:] == ["serve"] else asyncio.run(_call())
