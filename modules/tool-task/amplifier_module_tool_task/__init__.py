"""Mount the tool `task`, which hands work to the agents of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .settings import Settings
from .tool import EVENTS, TaskTool

__all__ = ["Settings", "TaskTool", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool; which agents there are, and whether sub-sessions can be started, is looked up at each call.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    tool = TaskTool(coordinator, Settings.of(config or {}))
    coordinator.register_contributor("observability.events", "tool-task", lambda: list(EVENTS))
    await coordinator.mount("tools", tool, name=tool.name)
