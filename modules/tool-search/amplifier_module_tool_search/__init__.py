"""Mount two tools that search: `grep` by the content of files, `glob` by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .glob import Glob
from .grep import Grep
from .places import Places
from .settings import Settings

__all__ = ["Glob", "Grep", "Places", "Settings", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount both tools over the same folders.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    settings = Settings.of(config or {})
    places = Places(settings, coordinator)
    for tool in (Grep(places, settings), Glob(places, settings)):
        await coordinator.mount("tools", tool, name=tool.name)
