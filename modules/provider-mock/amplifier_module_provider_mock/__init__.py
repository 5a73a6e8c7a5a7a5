"""Mount a provider that plays a script instead of asking a model.

The whole configuration is checked here, at mount: a script that mounts will play to its end. A mistake raises
`ValueError` naming the item and what it should look like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .provider import ANNOUNCED, MockProvider
from .script import Script, ScriptedCall, ScriptedError, ScriptedReply
from .settings import Settings

__all__ = ["MockProvider", "ScriptedReply", "Script", "ScriptedCall", "ScriptedError", "Settings", "mount"]
__amplifier_module_type__ = "provider"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount one `MockProvider` under its configured name (`mock` by default).

    Raises:
        ValueError: the configuration does not describe a script.
    """
    provider = MockProvider(Settings.of(config or {}), getattr(coordinator, "hooks", None))
    await coordinator.mount("providers", provider, name=provider.name)
    if hasattr(coordinator, "register_contributor"):
        coordinator.register_contributor("session.cost", "provider-mock", provider.cost)
        coordinator.register_contributor("observability.events", "provider-mock", lambda: list(ANNOUNCED))
