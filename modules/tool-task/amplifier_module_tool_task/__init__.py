"""Mount the tool `task`, which hands work to the agents of the plan."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .settings import Settings
from .tool import EVENTS, HOW_TO_HAVE_AGENTS, TaskTool, agents_of

__all__ = ["Settings", "TaskTool", "mount"]
__amplifier_module_type__ = "tool"

logger = logging.getLogger(__name__)


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tool, and warn where the plan has no agents yet.

    Each call looks up which agents there are, and whether sub-sessions can be started.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    tool = TaskTool(coordinator, Settings.of(config or {}))
    coordinator.register_contributor("observability.events", "tool-task", lambda: list(EVENTS))
    if not agents_of(coordinator):
        logger.warning("tool-task: the plan has no agents, so `task` can only fail; %s", HOW_TO_HAVE_AGENTS)
    await coordinator.mount("tools", tool, name=tool.name)
