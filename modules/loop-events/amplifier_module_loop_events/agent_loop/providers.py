"""Choose the provider that a turn asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_PRIORITY = 100


def preferred(loop: str, providers: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the provider with the lowest `priority` (100 where it has none), the first mounted among equals.

    Raises:
        RuntimeError: there is none; the message names the loop.
    """
    if not providers:
        raise RuntimeError(
            f"{loop}: there is no provider to ask: none is listed under `providers` in the plan, or none could be "
            "mounted (the session's warnings say why)"
        )
    return min(providers.items(), key=lambda entry: _priority(entry[1]))


def _priority(provider: Any) -> float:
    for value in (getattr(provider, "priority", None), _configured(provider)):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return DEFAULT_PRIORITY


def _configured(provider: Any) -> Any:
    config = getattr(provider, "config", None)
    return config.get("priority") if isinstance(config, Mapping) else None
