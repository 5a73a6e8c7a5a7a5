"""The least a module can be: one tool, under the name its configuration gives."""

from __future__ import annotations

import gc
from typing import Any

from amplifier_core import ToolResult

__amplifier_module_type__ = "tool"


class Trivial:
    """Answers, and on request has its process collect its garbage first."""

    description = "Do nothing."
    input_schema = {"type": "object"}

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return at once, or after a full collection."""
        if input.get("collect"):
            gc.collect()
        return ToolResult(success=True, output="ok")


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    """Mount the tool."""
    tool = Trivial(config["name"])
    await coordinator.mount("tools", tool, name=tool.name)
