"""What an author needs to test a module without a host."""

from __future__ import annotations

from paddock_sdk.contract.models import HookResult, ToolResult
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockTool,
    ScriptedOrchestrator,
    TestCoordinator,
    create_test_coordinator,
    wait_for,
)

__all__ = [
    "EventRecorder",
    "HookResult",
    "MockContextManager",
    "MockCoordinator",
    "MockTool",
    "ModuleCoordinator",
    "ScriptedOrchestrator",
    "TestCoordinator",
    "ToolResult",
    "create_test_coordinator",
    "wait_for",
]
