"""What an author needs to test a module without a host."""

from __future__ import annotations

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
    "MockContextManager",
    "MockCoordinator",
    "MockTool",
    "ScriptedOrchestrator",
    "TestCoordinator",
    "create_test_coordinator",
    "wait_for",
]
