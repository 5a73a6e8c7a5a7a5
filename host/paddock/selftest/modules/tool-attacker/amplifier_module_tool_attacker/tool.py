"""The tool: its input names an attack, its output is what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

from .performance import is_on_the_session, perform, perform_in_session

__all__ = ["AttackTool"]


class AttackTool:
    """Performs attacks where it stands; nothing else in the process runs meanwhile, but for those on the session."""

    description = "Try to break out, and say how far it went."
    input_schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name"],
    }

    def __init__(self, name: str, coordinator: Any) -> None:
        self.name = name
        self._coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return what came of the attack `name`; not every attack leaves anybody to return it."""
        name, arguments = input["name"], input.get("arguments", {})
        if is_on_the_session(name):
            return ToolResult(output=await perform_in_session(name, self._coordinator, arguments))
        return ToolResult(output=perform(name, arguments))
