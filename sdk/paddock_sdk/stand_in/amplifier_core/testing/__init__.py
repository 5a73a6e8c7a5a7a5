"""What an author needs to test a module without a host."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.models import HookResult, ToolResult
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockProvider,
    MockTool,
    ScriptedOrchestrator,
    TestCoordinator,
    create_test_coordinator,
    wait_for,
)

__all__ = [
    "HookResult",
    "ToolResult",
    "ModuleCoordinator",
    "EventRecorder",
    "MockContextManager",
    "MockCoordinator",
    "MockProvider",
    "MockTool",
    "ScriptedOrchestrator",
    "TestCoordinator",
    "create_test_coordinator",
    "wait_for",
]
