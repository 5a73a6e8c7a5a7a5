"""Choose the provider for a turn, or for a request beside the conversation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

_RESOLVER = "model_role_resolver"  # the capability that maps roles to models

DEFAULT_PRIORITY = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """A mounted provider, and the model to ask it for: None for its own."""

    name: str
    provider: Any
    model: str | None = None


async def of_role(role: str, providers: Mapping[str, Any], coordinator: Any | None) -> Choice | None:
    """Return the session's choice for a role of models; None without a resolver, or if none of it is mounted."""
    lookup = getattr(coordinator, "get_capability", None)
    resolver = lookup(_RESOLVER) if lookup is not None else None
    if resolver is None:
        return None
    try:
        wanted = await resolver.resolve(role)
    except Exception:  # the role is a wish; the turn's own provider does without it
        logger.warning("the role `%s` cannot be resolved", role, exc_info=True)
        return None
    for wish in wanted or ():
        named = getattr(wish, "provider", None)
        for name, provider in providers.items():
            if named in (name, f"provider-{name}"):
                model = getattr(wish, "model", None)
                return Choice(name, provider, model if isinstance(model, str) and model else None)
    return None


def preferred(loop: str, providers: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the provider with the lowest `priority` (100 by default), the first mounted among equals.

    Raises:
        RuntimeError: no provider is mounted; the message names the loop.
    """
    if not providers:
        raise RuntimeError(
            f"{loop}: there is no provider to ask: none is listed under `providers` in the plan, or none could be "
            "mounted (the session's warnings say why)"
        )
    return min(providers.items(), key=lambda entry: _priority(entry[1]))


def _priority(provider: Any) -> float:
    config = getattr(provider, "config", None)
    configured = config.get("priority") if isinstance(config, Mapping) else None
    for value in (getattr(provider, "priority", None), configured):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return DEFAULT_PRIORITY
