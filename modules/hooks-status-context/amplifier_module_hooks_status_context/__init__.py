"""Mount a hook that gives the model the date, the working directory and the state of git."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .settings import Settings
from .status import StatusContext

__all__ = ["Settings", "StatusContext", "mount"]
__amplifier_module_type__ = "hook"

NAME = "hooks-status-context"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], None]:
    """Register for the configured event; return the function that ends it. Nothing is run before that event.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    settings = Settings.of(config or {})
    status = StatusContext(coordinator, settings)
    unregister: Callable[[], None] = coordinator.hooks.register(
        settings.event, status.on_event, priority=settings.priority, name=NAME
    )
    return unregister
