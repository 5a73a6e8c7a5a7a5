"""A hook that is asked about every step of a turn, and changes nothing."""

from __future__ import annotations

from typing import Any

from amplifier_core.models import HookResult


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    async def seen(event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(action="continue")

    for event in ("prompt:submit", "provider:request", "tool:pre", "tool:post"):
        coordinator.hooks.register(event, seen, priority=50, name="quiet")
