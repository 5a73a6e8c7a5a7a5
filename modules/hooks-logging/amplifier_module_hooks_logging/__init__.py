"""Mount a hook that writes the session's events to a file, one JSON object a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .event_logger import EventLogger
from .settings import Settings

__all__ = ["EventLogger", "Settings", "mount"]
__amplifier_module_type__ = "hook"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], None]:
    """Register for the configured events; return a function that stops logging and closes the file.

    In a session the file is made here; without one, with the first event.

    Raises:
        ValueError: a setting has the wrong shape, or the file cannot be written.
    """
    event_logger = EventLogger(coordinator, Settings.of(config or {}))
    await event_logger.start()
    return event_logger.close
