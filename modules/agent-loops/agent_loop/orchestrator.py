"""What the session talks to: it runs one turn for each prompt.

It keeps nothing from one prompt for the next, so one instance may serve prompts side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .settings import LoopSettings
from .spans import RunningTurns
from .turn import Parts, Turn


class Orchestrator:
    """The loop that events name `loop`; each of its turns is made by `make_turn`."""

    def __init__(self, loop: str, settings: LoopSettings, make_turn: Callable[[Parts], Turn]) -> None:
        self._loop = loop
        self._settings = settings
        self._make_turn = make_turn
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
        turn = self._make_turn(Parts.of(self._loop, self._settings, context, providers, tools, hooks, coordinator))
        with self._turns.named(hooks, coordinator, turn.span.turn_id):
            return await turn.run(prompt)
