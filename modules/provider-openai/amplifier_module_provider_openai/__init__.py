"""Mount a provider for OpenAI, or for a server with the same chat completions."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .endpoint import Endpoint
from .prices import Catalogue
from .provider import OpenAIProvider
from .settings import Settings
from .shown_answer import ANNOUNCED

__all__ = ["Catalogue", "Endpoint", "OpenAIProvider", "Settings", "mount"]
__amplifier_module_type__ = "provider"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> Callable[[], Awaitable[None]]:
    """Mount an `OpenAIProvider` under its configured name, and return the function that closes its connections.

    It mounts without a key: the first request reports the remedy.

    Raises:
        ValueError: a setting is unknown or has the wrong shape.
    """
    settings = Settings.of(config or {}, os.environ)
    provider = OpenAIProvider(settings, Endpoint(settings), getattr(coordinator, "hooks", None))
    await coordinator.mount("providers", provider, name=provider.name)
    coordinator.register_contributor("session.cost", "provider-openai", provider.cost)
    coordinator.register_contributor("observability.events", "provider-openai", lambda: list(ANNOUNCED))
    return provider.close
