"""The session's orchestrator: it runs one turn for each prompt.

It keeps nothing from one prompt for the next, so one instance may serve prompts side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_loop.settings import LoopSettings
from agent_loop.spans import RunningTurns
from agent_loop.turn import Parts, Turn

NAME = "loop-basic"


class BasicOrchestrator:
    """The agent loop with tool calling."""

    def __init__(self, settings: LoopSettings | None = None) -> None:
        self._settings = settings or LoopSettings()
        self._turns = RunningTurns()

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
        turn = Turn(Parts.of(NAME, self._settings, context, providers, tools, hooks, coordinator))
        with self._turns.named(hooks, coordinator, turn.span.turn_id):
            return await turn.run(prompt)
