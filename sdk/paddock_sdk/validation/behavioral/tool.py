"""The behaviour of every tool: the contract's tests, and stricter ones."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.validation.behavioral.defects import only_refusals

__all__ = ["StrictToolTests", "ToolBehaviorTests"]


class ToolBehaviorTests:
    """The contract's tests of the fixture `tool_module`. The tool is executed, with inputs that ask for nothing."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_mount_succeeds(self, tool_module: Any) -> None:
        assert tool_module is not None

    @pytest.mark.asyncio
    async def test_tool_has_name(self, tool_module: Any) -> None:
        assert isinstance(tool_module.name, str), "`name` has to be text: it is how models call the tool"
        assert tool_module.name, "`name` is empty"

    @pytest.mark.asyncio
    async def test_tool_has_description(self, tool_module: Any) -> None:
        assert isinstance(tool_module.description, str), "`description` has to be text: models read it"
        assert tool_module.description, "`description` is empty"

    @pytest.mark.asyncio
    async def test_tool_has_execute_method(self, tool_module: Any) -> None:
        assert callable(tool_module.execute), "`execute` cannot be called"

    @pytest.mark.asyncio
    async def test_execute_returns_tool_result(self, tool_module: Any) -> None:
        result = await tool_module.execute({"_tool_call_id": "call-1"})
        assert isinstance(result, ToolResult), f"execute() has to return a ToolResult, not {type(result).__name__}"

    @pytest.mark.asyncio
    async def test_tool_result_has_required_fields(self, tool_module: Any) -> None:
        result = await tool_module.execute({"_tool_call_id": "call-2"})
        missing = [name for name in ("success", "output") if not hasattr(result, name)]
        assert not missing, f"what execute() returns has no `{'` and no `'.join(missing)}`"

    @pytest.mark.asyncio
    async def test_invalid_input_returns_error_result(self, tool_module: Any) -> None:
        with only_refusals("execute() with an empty input", AttributeError, TypeError, KeyError):
            await tool_module.execute({})


class StrictToolTests:
    """Requirements beyond the contract's tests that every orchestrator relies on."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_input_schema_is_a_dict(self, tool_module: Any) -> None:
        assert isinstance(getattr(tool_module, "input_schema", {}), dict), "`input_schema` has to be a JSON schema"

    @pytest.mark.asyncio
    async def test_execute_is_asynchronous(self, tool_module: Any) -> None:
        assert inspect.iscoroutinefunction(tool_module.execute), "`execute` has to be defined with `async def`"

    @pytest.mark.asyncio
    async def test_execute_answers_an_empty_input(self, tool_module: Any) -> None:
        result = await tool_module.execute({})
        assert isinstance(result, ToolResult), f"execute() has to return a ToolResult, not {type(result).__name__}"
