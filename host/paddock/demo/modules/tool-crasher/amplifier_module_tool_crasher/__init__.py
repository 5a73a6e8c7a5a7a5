"""Mount `crash`: a tool that reads from address 0, as a broken C extension might."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

__all__ = ["Crash", "mount"]
__amplifier_module_type__ = "tool"


class Crash:
    """Does not survive its first call."""

    name = "crash"
    description = "End this tool's process with a segmentation fault."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Never return."""
        return ToolResult(output=ctypes.string_at(0))


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool; it has no settings."""
    await coordinator.mount("tools", Crash())
