"""Mount an in-memory context that shows the model as much of the conversation as fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .context import EVENTS, SimpleContextManager
from .settings import Settings

__all__ = ["Settings", "SimpleContextManager", "mount"]
__amplifier_module_type__ = "context"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount a `SimpleContextManager` as the session's context.

    Raises:
        ValueError: a setting is unknown, has the wrong shape, or names a tokenizer that is not at hand.
    """
    hooks = getattr(coordinator, "hooks", None)
    await coordinator.mount("context", SimpleContextManager(Settings.of(config or {}), hooks=hooks))
    if hasattr(coordinator, "register_contributor"):
        coordinator.register_contributor("observability.events", "context-simple", lambda: list(EVENTS))
