"""Mount the tool `todo`, with which a model keeps the list of its remaining work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .settings import Settings
from .tool import TodoTool

__all__ = ["Settings", "TodoTool", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool over the session's list, which starts empty; a list that is there already is kept.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    settings = Settings.of(config or {})
    if getattr(coordinator, "todo_state", None) is None:
        coordinator.todo_state = []
    tool = TodoTool(coordinator, settings)
    await coordinator.mount("tools", tool, name=tool.name)
