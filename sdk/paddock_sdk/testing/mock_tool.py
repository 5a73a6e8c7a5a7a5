"""A tool that answers what it was told to and remembers how it was called.

`execute` is an `AsyncMock`, so a test may also assert on it or replace its `side_effect`.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

from paddock_sdk.contract.models import ToolResult

__all__ = ["MockTool"]


class MockTool:
    """A tool for testing whatever calls tools; `return_value` is another word for `output`."""

    def __init__(
        self,
        name: str = "mock_tool",
        output: Any = "Success",
        *,
        description: str | None = None,
        return_value: Any = None,
    ) -> None:
        self.name = name
        self.description = f"Mock tool {name}" if description is None else description
        self.output = output if return_value is None else return_value
        self.input_schema: dict[str, Any] = {"type": "object", "properties": {}}
        self.call_count = 0
        self.last_input: dict[str, Any] | None = None
        self.execute = AsyncMock(side_effect=self._execute)

    async def _execute(self, input: dict[str, Any]) -> ToolResult:
        self.call_count += 1
        self.last_input = input
        return self.answer(input)

    def get_schema(self) -> dict[str, Any]:
        """Return the input schema, by the name that older tools give it."""
        return self.input_schema

    def answer(self, input: dict[str, Any]) -> ToolResult:
        """Return what a call answers; a subclass decides otherwise."""
        return ToolResult(success=True, output=self.output)
