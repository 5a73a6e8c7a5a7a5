"""Mount `eat_memory`: a tool that takes memory until it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

__all__ = ["EatMemory", "mount"]
__amplifier_module_type__ = "tool"

_PIECE_BYTES = 8 << 20
_AT_MOST = 128  # pieces: a gigabyte, in case nothing stops it


class EatMemory:
    """Takes more and more memory, and uses all of it."""

    name = "eat_memory"
    description = "Use up the machine's memory."
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return the number of bytes taken."""
        taken = []
        for _ in range(_AT_MOST):
            taken.append(bytearray(b"x") * _PIECE_BYTES)
            await asyncio.sleep(0.01)
        return ToolResult(output=f"{len(taken) * _PIECE_BYTES >> 20} MiB")


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool; it has no settings."""
    await coordinator.mount("tools", EatMemory())
