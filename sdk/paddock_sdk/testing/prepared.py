"""A coordinator with something on it: two tools, one that answers its input and one that fails, and a context."""

from __future__ import annotations

from typing import Any

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.testing.mock_context_manager import MockContextManager
from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.testing.mock_tool import MockTool

__all__ = ["create_test_coordinator"]


class _EchoTool(MockTool):
    def answer(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(success=True, output=input)


class _FailingTool(MockTool):
    def answer(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(success=False, error={"message": "this tool always fails"})


def create_test_coordinator() -> MockCoordinator:
    """Return a coordinator with the tools `echo` and `fail` and an empty context."""
    coordinator = MockCoordinator()
    # Written in place: the function is synchronous, and the record of mounts starts empty.
    coordinator.mount_points["tools"]["echo"] = _EchoTool("echo", description="Answers its input")
    coordinator.mount_points["tools"]["fail"] = _FailingTool("fail", description="Always fails")
    coordinator.mount_points["context"] = MockContextManager()
    return coordinator
