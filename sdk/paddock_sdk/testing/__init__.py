"""Tools for authors to test a module without a host: mocks, a recorder and a scripted orchestrator.

Everything runs in the test's own process, on the same kernel classes a session uses.
"""

from __future__ import annotations

from paddock_sdk.testing.mocks import (
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
