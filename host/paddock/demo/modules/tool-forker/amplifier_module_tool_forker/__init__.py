"""Mount `fork_bomb`: a tool that starts processes which start processes, until it is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

__all__ = ["ForkBomb", "mount"]
__amplifier_module_type__ = "tool"

_AT_MOST = 2000  # a bound that the machine survives, in case nothing stops it


class ForkBomb:
    """Starts as many processes as it can, each of which lives on."""

    name = "fork_bomb"
    description = "Start processes without end."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the number of processes, unless they ended this process too."""
        for count in range(_AT_MOST):
            try:
                child = os.fork()
            except BlockingIOError as error:
                return ToolResult(
                    success=False, error={"type": "BlockingIOError", "message": f"{count} processes, then: {error}"}
                )
            if child == 0:
                signal.pause()
        return ToolResult(output=f"{_AT_MOST} processes")


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool; it has no settings."""
    await coordinator.mount("tools", ForkBomb())
