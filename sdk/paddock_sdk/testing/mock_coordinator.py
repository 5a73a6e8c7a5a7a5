"""A coordinator for tests that mount one module: real behaviour, a made-up session, mocks for what asks people.

It keeps a record of every mount and unmount that succeeded through its methods. Things placed by writing to
`mount_points` work as they do in a session and are not part of that record.
"""

from __future__ import annotations

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

from paddock_sdk.kernel.coordinator import ModuleCoordinator

__all__ = ["MockCoordinator", "TestCoordinator"]


class MockCoordinator(ModuleCoordinator):
    """A coordinator that belongs to no session."""

    # pytest would otherwise try to collect it under its other name, which starts with "Test".
    __test__ = False

    def __init__(self) -> None:
        session = SimpleNamespace(
            session_id="test-session",
            parent_id=None,
            config={"session": {"orchestrator": "test-orchestrator", "context": "test-context"}},
        )
        # Showing a message is a plain call: an asynchronous mock would leave a coroutine nobody awaits.
        super().__init__(
            session=session, approval_system=AsyncMock(), display_system=AsyncMock(show_message=Mock(return_value=None))
        )
        self.mount_history: list[dict[str, Any]] = []
        self.unmount_history: list[dict[str, Any]] = []

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Awaitable[Any]:
        done = super().mount(mount_point, module, name)
        self.mount_history.append({"mount_point": mount_point, "module": module, "name": name})
        return done

    def unmount(self, mount_point: str, name: str | None = None) -> Awaitable[Any]:
        done = super().unmount(mount_point, name)
        self.unmount_history.append({"mount_point": mount_point, "name": name})
        return done

    def get_mounted(self, mount_point: str) -> Any:
        """Return what is mounted at a point, an empty dict when nothing is."""
        return self.get(mount_point) or {}


TestCoordinator = MockCoordinator
