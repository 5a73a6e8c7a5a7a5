"""What every tool does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paddock_sdk.contract.models import ToolResult

__all__ = ["ToolBehaviorTests"]


class ToolBehaviorTests:
    """Tests of the fixture `tool_module`. The tool is executed, with inputs that say nothing of what to do."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_mounts_a_tool(self, tool_module: Any) -> None:
        assert tool_module is not None

    @pytest.mark.asyncio
    async def test_name_is_text(self, tool_module: Any) -> None:
        assert isinstance(tool_module.name, str), "`name` has to be text: it is how models call the tool"
        assert tool_module.name.strip(), "`name` is empty"

    @pytest.mark.asyncio
    async def test_description_is_text(self, tool_module: Any) -> None:
        assert isinstance(tool_module.description, str), "`description` has to be text: models read it"
        assert tool_module.description.strip(), "`description` is empty"

    @pytest.mark.asyncio
    async def test_input_schema_is_a_dict(self, tool_module: Any) -> None:
        assert isinstance(getattr(tool_module, "input_schema", {}), dict), "`input_schema` has to be a JSON schema"

    @pytest.mark.asyncio
    async def test_execute_is_asynchronous(self, tool_module: Any) -> None:
        assert callable(tool_module.execute), "`execute` cannot be called"
        assert inspect.iscoroutinefunction(tool_module.execute), "`execute` has to be defined with `async def`"

    @pytest.mark.asyncio
    async def test_execute_returns_a_result(self, tool_module: Any) -> None:
        result = await tool_module.execute({"_tool_call_id": "call-1"})
        assert isinstance(result, ToolResult), f"execute() has to return a ToolResult, not {type(result).__name__}"

    @pytest.mark.asyncio
    async def test_execute_answers_an_empty_input(self, tool_module: Any) -> None:
        result = await tool_module.execute({})
        assert isinstance(result, ToolResult), f"execute() has to return a ToolResult, not {type(result).__name__}"
