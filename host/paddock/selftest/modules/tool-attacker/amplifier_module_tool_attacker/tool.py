"""The tool: its input names the body of an attack, its output is the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amplifier_core.models import ToolResult

from .performance import is_on_the_session, perform, perform_in_session
from .raw_calls import NUMBERS


class AttackTool:
    """Performs attacks in this process; nothing else runs in it meanwhile, except during attacks on the session."""

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
        """Return the result of the attack; some attacks leave no process to return it."""
        body, arguments = input["body"], input.get("arguments", {})
        NUMBERS.update(input.get("numbers", {}))
        if is_on_the_session(body):
            return ToolResult(output=await perform_in_session(body, self._coordinator, arguments))
        return ToolResult(output=perform(body, arguments))
