"""Mount a provider that sends requests to Anthropic's models through the official SDK."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .observers import ANNOUNCED
from .prices import Catalogue
from .provider import AnthropicProvider
from .settings import Settings

__all__ = ["AnthropicProvider", "Catalogue", "Settings", "mount"]
__amplifier_module_type__ = "provider"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Mount an `AnthropicProvider` under its configured name, and return the function that closes its connections.

    It mounts without a key: the first request reports that the key is missing.

    Raises:
        ValueError: a setting is unknown or has the wrong shape; the message names it.
    """
    provider = AnthropicProvider(Settings.of(config or {}, os.environ), getattr(coordinator, "hooks", None))
    await coordinator.mount("providers", provider, name=provider.name)
    coordinator.register_contributor("session.cost", "provider-anthropic", provider.cost)
    coordinator.register_contributor("observability.events", "provider-anthropic", lambda: list(ANNOUNCED))
    return provider.close
