"""What the session talks to: it runs one turn for each prompt, and listens to the reply that a provider announces.

It keeps nothing from one prompt for the next, so one instance may serve prompts side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from amplifier_core.models import HookResult

from .heard_reply import PIECE
from .hook_gate import HookGate
from .providers import preferred
from .settings import LoopSettings
from .spans import RunningTurns
from .turn import ANNOUNCED, Parts, Turn

_LAST = 1000  # after hooks that change a piece


class Orchestrator:
    """The loop that events name `loop`; each of its turns is made by `make_turn`."""

    def __init__(self, loop: str, settings: LoopSettings, make_turn: Callable[[Parts], Turn]) -> None:
        self._loop = loop
        self._settings = settings
        self._make_turn = make_turn
        self._turns = RunningTurns()
        self._known: list[dict[str, Any]] = []
        self._playing: WeakValueDictionary[str, Turn] = WeakValueDictionary()  # by the turn's id

    async def join(self, coordinator: Any, *own_events: str) -> None:
        """Mount the loop as the session's orchestrator; it emits these events beside those of every loop."""
        await coordinator.mount("orchestrator", self)
        coordinator.hooks.register(PIECE, self.hear, priority=_LAST, name=self._loop)
        announced = [*ANNOUNCED, *own_events]
        coordinator.register_contributor("observability.events", self._loop, lambda: announced)

    async def hear(self, event: str, data: Any) -> HookResult:
        """Take a piece that a provider announced, so that it stays in the conversation if its reply is broken off."""
        turn = self._playing.get(str(data.get("turn_id"))) if isinstance(data, Mapping) else None
        if turn is not None:
            turn.heard.take(data)
        return HookResult(action="continue")

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
        name, provider = preferred(self._loop, providers)
        gate = HookGate(hooks, coordinator, context)
        parts = Parts(
            self._loop, self._settings, context, name, provider, providers, tools, gate, coordinator, self._known
        )
        turn = self._make_turn(parts)
        self._playing[turn.span.turn_id] = turn
        with self._turns.named(hooks, coordinator, turn.span.turn_id):
            return await turn.run(prompt)
