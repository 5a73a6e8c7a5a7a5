"""Mount the streaming agent loop: the answer as it comes, tools side by side, steering and goals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from agent_loop.orchestrator import Orchestrator
from agent_loop.turn import ANNOUNCED
from amplifier_core.models import HookResult

from .goal import PROGRESS
from .settings import Settings
from .steering import INJECTED, SteeringQueue, SteeringQueueFull
from .streamed_reply import PIECE, Heard
from .turn import StreamingTurn

__all__ = ["Settings", "SteeringQueueFull", "StreamingOrchestrator", "mount"]
__amplifier_module_type__ = "orchestrator"

NAME = "loop-streaming"
_LAST = 1000  # after hooks that change a piece


class StreamingOrchestrator(Orchestrator):
    """The agent loop with streaming, steering and goals; steering that no turn has taken begins the next one."""

    def __init__(self, settings: Settings | None = None) -> None:
        chosen = settings or Settings()
        self._steering = SteeringQueue(chosen.max_steering)
        self._heard: Heard = WeakValueDictionary()
        make_turn = partial(StreamingTurn, settings=chosen, steering=self._steering, heard=self._heard)
        super().__init__(NAME, chosen, make_turn)

    def steer(self, message: str) -> None:
        """Add a message of the person's to the conversation before the next request to the model.

        Raises:
            ValueError: it is empty.
            SteeringQueueFull: too many wait already.
        """
        self._steering.steer(message)

    async def hear(self, event: str, data: Any) -> HookResult:
        """Take a piece that a provider announced, so that it stays in the conversation if its reply is broken off."""
        reply = self._heard.get(str(data.get("turn_id"))) if isinstance(data, Mapping) else None
        if reply is not None:
            reply.take(data)
        return HookResult(action="continue")


async def mount(coordinator: Any, config: Mapping[str, Any] | None = None) -> None:
    """Mount a `StreamingOrchestrator`, and offer its `steer` as the capability `session.steer`.

    Raises:
        ValueError: a setting has the wrong shape.
    """
    orchestrator = StreamingOrchestrator(Settings.of(NAME, config or {}))
    await coordinator.mount("orchestrator", orchestrator)
    coordinator.hooks.register(PIECE, orchestrator.hear, priority=_LAST, name=NAME)
    coordinator.register_capability("session.steer", orchestrator.steer)
    coordinator.register_contributor("observability.events", NAME, lambda: [*ANNOUNCED, INJECTED, PROGRESS])
