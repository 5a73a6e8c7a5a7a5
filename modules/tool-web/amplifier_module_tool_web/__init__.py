"""Mount `web_fetch`, and `web_search` where an endpoint for it is configured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .client import WebClient
from .fetch import WebFetch
from .search import WebSearch
from .settings import Settings

__all__ = ["Settings", "WebClient", "WebFetch", "WebSearch", "mount"]
__amplifier_module_type__ = "tool"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount the tools.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    settings = Settings.of(config or {})
    client = WebClient(settings)
    await coordinator.mount("tools", WebFetch(client), name=WebFetch.name)
    if settings.search_url:
        await coordinator.mount("tools", WebSearch(client, settings.search_url), name=WebSearch.name)
