"""What an author needs to test a module without a host: mocks, a recorder and a scripted orchestrator.

Everything runs in the test's own process, on the same kernel classes a session uses.
"""

from __future__ import annotations

from paddock_sdk.testing.event_recorder import EventRecorder
from paddock_sdk.testing.mock_context_manager import MockContextManager
from paddock_sdk.testing.mock_coordinator import MockCoordinator, TestCoordinator
from paddock_sdk.testing.mock_tool import MockTool
from paddock_sdk.testing.prepared import create_test_coordinator
from paddock_sdk.testing.scripted_orchestrator import ScriptedOrchestrator
from paddock_sdk.testing.waiting import wait_for

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
