"""Mount the basic agent loop: ask the model, run the tools it calls, repeat until it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_loop.orchestrator import Orchestrator
from agent_loop.settings import LoopSettings
from agent_loop.turn import Turn

__all__ = ["BasicOrchestrator", "LoopSettings", "mount"]
__amplifier_module_type__ = "orchestrator"

NAME = "loop-basic"


class BasicOrchestrator(Orchestrator):
    """The agent loop with tool calling."""

    def __init__(self, settings: LoopSettings | None = None) -> None:
        super().__init__(NAME, settings or LoopSettings(), Turn)


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount a `BasicOrchestrator` as the session's orchestrator.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    await BasicOrchestrator(LoopSettings.of(NAME, config or {})).join(coordinator)
