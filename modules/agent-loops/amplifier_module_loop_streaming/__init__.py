"""Mount the streaming agent loop: the answer as it comes, tools side by side, steering and goals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_loop.turn import ANNOUNCED

from .goal import PROGRESS
from .orchestrator import NAME, StreamingOrchestrator
from .settings import Settings
from .steering import INJECTED, SteeringQueueFull

__all__ = ["Settings", "SteeringQueueFull", "StreamingOrchestrator", "mount"]
__amplifier_module_type__ = "orchestrator"


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount a `StreamingOrchestrator`, and offer its `steer` as the capability `session.steer`.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    orchestrator = StreamingOrchestrator(Settings.of(NAME, config or {}))
    await coordinator.mount("orchestrator", orchestrator)
    coordinator.register_capability("session.steer", orchestrator.steer)
    coordinator.register_contributor("observability.events", NAME, lambda: [*ANNOUNCED, INJECTED, PROGRESS])
