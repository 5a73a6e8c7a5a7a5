"""An orchestrator that times calls of a tool, as it would make them in a turn."""

from __future__ import annotations

import json
import time
from typing import Any

__amplifier_module_type__ = "orchestrator"


class Timing:
    """Runs a turn of nothing but one tool's calls."""

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: dict[str, Any],
        tools: dict[str, Any],
        hooks: Any,
        coordinator: Any = None,
    ) -> str:
        """Call the tool as often as the prompt says and return each call's nanoseconds, as JSON."""
        order = json.loads(prompt)
        tool = tools[order["tool"]]
        taken: list[int] = []
        for _ in range(order["calls"]):
            before = time.perf_counter_ns()
            result = await tool.execute(order["input"])
            taken.append(time.perf_counter_ns() - before)
            if not result.success:
                raise RuntimeError(f"the tool failed: {result.error}")
        return json.dumps(taken)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the orchestrator."""
    await coordinator.mount("orchestrator", Timing())
