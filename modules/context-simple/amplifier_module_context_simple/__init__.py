"""Mount an in-memory context that shows the model as much of the conversation as fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .context import SimpleContextManager
from .settings import Settings

__all__ = ["Settings", "SimpleContextManager", "mount"]
__amplifier_module_type__ = "context"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount a `SimpleContextManager` as the session's context.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    hooks = getattr(coordinator, "hooks", None)
    await coordinator.mount("context", SimpleContextManager(Settings.of(config or {}), hooks=hooks))
