"""Register a handler that never returns, for the results of one tool."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from amplifier_core.models import HookResult

__all__ = ["mount"]
__amplifier_module_type__ = "hook"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Listen to `tool:post`; the setting `tool` names the tool whose results make it sleep."""
    tool = (config or {}).get("tool")

    async def handle(event: str, data: dict[str, Any]) -> HookResult:
        if data.get("tool_name") == tool:
            _sleep_forever()
        return HookResult(action="continue")

    coordinator.hooks.register("tool:post", handle, priority=50, name="sleeper")


def _sleep_forever() -> None:
    while True:
        time.sleep(60)  # not asyncio's: nothing in this process can cancel it
