"""Mount the streaming agent loop: the answer as it comes, tools side by side, steering and goals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agent_loop.orchestrator import Orchestrator

from .goal import PROGRESS
from .settings import Settings
from .steering import INJECTED, SteeringQueue, SteeringQueueFull
from .turn import StreamingTurn

__all__ = ["Settings", "SteeringQueueFull", "StreamingOrchestrator", "mount"]
__amplifier_module_type__ = "orchestrator"

NAME = "loop-streaming"


class StreamingOrchestrator(Orchestrator):
    """The agent loop with streaming, steering and goals; steering that no turn has taken begins the next one."""

    def __init__(self, settings: Settings | None = None) -> None:
        chosen = settings or Settings()
        self._steering = SteeringQueue(chosen.max_steering)
        super().__init__(NAME, chosen, partial(StreamingTurn, settings=chosen, steering=self._steering))

    def steer(self, message: str) -> None:
        """Add a message of the person's to the conversation before the next request to the model.

        Raises:
            ValueError: it is empty.
            SteeringQueueFull: too many wait already.
        """
        self._steering.steer(message)


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount a `StreamingOrchestrator`, and offer its `steer` as the capability `session.steer`.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    orchestrator = StreamingOrchestrator(Settings.of(NAME, config or {}))
    await orchestrator.join(coordinator, INJECTED, PROGRESS)
    coordinator.register_capability("session.steer", orchestrator.steer)
