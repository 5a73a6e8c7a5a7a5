"""Mount the basic agent loop: ask the model, run the tools it calls, repeat until it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .orchestrator import BasicOrchestrator
from .settings import Settings

__all__ = ["BasicOrchestrator", "Settings", "mount"]
__amplifier_module_type__ = "orchestrator"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount a `BasicOrchestrator` as the session's orchestrator.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    await coordinator.mount("orchestrator", BasicOrchestrator(Settings.of(config or {})))
