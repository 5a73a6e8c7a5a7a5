"""Handlers that agree with everything, as many as the configuration asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

__amplifier_module_type__ = "hook"


def _handler() -> Callable[[str, dict[str, Any]], Awaitable[None]]:
    async def nod(event: str, data: dict[str, Any]) -> None:
        """Have nothing to say."""

    return nod


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    """Register the handlers for the event."""
    for number in range(config["handlers"]):
        coordinator.hooks.register(config["event"], _handler(), priority=number)
