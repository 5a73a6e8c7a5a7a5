"""Mount the event-driven agent loop: hooks see the plan, and choose the tools."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agent_loop.orchestrator import Orchestrator

from .settings import Settings
from .tool_selection import RESOLUTION, SELECTED, SELECTING
from .turn import EventsTurn

__all__ = ["EventsOrchestrator", "Settings", "mount"]
__amplifier_module_type__ = "orchestrator"

NAME = "loop-events"


class EventsOrchestrator(Orchestrator):
    """The agent loop whose plan and tools are open to hooks."""

    def __init__(self, settings: Settings | None = None) -> None:
        chosen = settings or Settings()
        super().__init__(NAME, chosen, partial(EventsTurn, planning=chosen.planning))


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount an `EventsOrchestrator` as the session's orchestrator.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    await EventsOrchestrator(Settings.of(NAME, config or {})).join(coordinator, RESOLUTION, SELECTING, SELECTED)
