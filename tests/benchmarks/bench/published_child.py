"""Emits events with the `amplifier_core` package that its path leads to, to a handler in its own process.

Reads the number of events of one block a line, and answers with what each took in microseconds.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


async def _serve() -> None:
    from amplifier_core import HookRegistry, HookResult

    async def nod(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult()

    hooks, data = HookRegistry(), json.loads(sys.argv[1])
    hooks.register("bench:published", nod)
    for line in sys.stdin:
        taken = []
        for _ in range(int(line)):
            before = time.perf_counter_ns()
            await hooks.emit("bench:published", data)
            taken.append((time.perf_counter_ns() - before) / 1000)
        print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve())
