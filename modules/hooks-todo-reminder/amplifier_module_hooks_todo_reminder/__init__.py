"""Mount a hook that reminds the model of the open items of its todo list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .reminder import TodoReminder
from .settings import Settings

__all__ = ["Settings", "TodoReminder", "mount"]
__amplifier_module_type__ = "hook"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], None]:
    """Register for requests to the model; return a function that ends the reminders.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    return TodoReminder(coordinator, Settings.of(config or {})).start()
