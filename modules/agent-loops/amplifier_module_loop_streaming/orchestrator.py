"""The session's orchestrator: it runs one turn for each prompt, and accepts steering meanwhile.

Between prompts it keeps only the steering that no turn has taken yet: the next turn begins with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_loop.spans import RunningTurns
from agent_loop.turn import Parts

from .settings import Settings
from .steering import SteeringQueue
from .turn import StreamingTurn

NAME = "loop-streaming"


class StreamingOrchestrator:
    """The agent loop with streaming, steering and goals."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._turns = RunningTurns()
        self._steering = SteeringQueue(self._settings.max_steering)

    def steer(self, message: str) -> None:
        """Add a message of the person's to the conversation before the next request to the model.

        Raises:
            ValueError: it is empty.
            SteeringQueueFull: too many wait already.
        """
        self._steering.steer(message)

    async def execute(
        self,
        prompt: str,
        context: Any,
        providers: Mapping[str, Any],
        tools: Mapping[str, Any],
        hooks: Any,
        coordinator: Any | None = None,
        **kwargs: Any,
    ) -> str:
        """Play one prompt to its end and return the answer; keyword arguments of newer kernels are ignored.

        Raises:
            RuntimeError: no provider is mounted.
            LLMError: the provider failed.
        """
        parts = Parts.of(NAME, self._settings, context, providers, tools, hooks, coordinator)
        turn = StreamingTurn(parts, self._settings, self._steering, providers)
        with self._turns.named(hooks, coordinator, turn.span.turn_id):
            return await turn.run(prompt)
