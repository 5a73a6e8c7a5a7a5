"""The tool: its input names an attack, its output is what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

from .performance import perform

__all__ = ["Attack"]


class Attack:
    """Performs attacks where it stands; nothing else in the process runs meanwhile."""

    description = "Try to break out, and say how far it went."
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name"],
    }

    def __init__(self, name: str) -> None:
        self.name = name

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return what came of the attack `name`; not every attack leaves anybody to return it."""
        return ToolResult(output=perform(input["name"], input.get("arguments", {})))
