"""The tool: its input names the body of an attack, its output is what came of it."""

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
        "properties": {"body": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["body"],
    }

    def __init__(self, name: str, coordinator: Any) -> None:
        self.name = name
        self._coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Return what came of the attack; not every attack leaves anybody to return it."""
        body, arguments = input["body"], input.get("arguments", {})
        if is_on_the_session(body):
            return ToolResult(output=await perform_in_session(body, self._coordinator, arguments))
        return ToolResult(output=perform(body, arguments))
