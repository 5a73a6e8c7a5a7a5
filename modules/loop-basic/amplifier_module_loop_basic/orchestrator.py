"""The orchestrator the session talks to: it picks a provider and plays one `Turn` for each prompt.

It keeps nothing between prompts, so one instance may serve prompts side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .hook_gate import HookGate
from .settings import Settings
from .turn import Turn

DEFAULT_PRIORITY = 100


class BasicOrchestrator:
    """The agent loop with tool calling."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()

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
        turn = Turn(
            settings=self._settings,
            context=context,
            provider=preferred(providers),
            tools=tools,
            gate=HookGate(hooks, coordinator, context),
            coordinator=coordinator,
        )
        return await turn.run(prompt)


def preferred(providers: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the provider with the lowest `priority` (100 where it has none), the first mounted among equals.

    Raises:
        RuntimeError: there is none.
    """
    if not providers:
        raise RuntimeError(
            "loop-basic: there is no provider to ask: none is listed under `providers` in the plan, or none could be "
            "mounted (the session's warnings say why)"
        )
    return min(providers.items(), key=lambda entry: _priority(entry[1]))


def _priority(provider: Any) -> float:
    for value in (getattr(provider, "priority", None), _configured(provider)):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return DEFAULT_PRIORITY


def _configured(provider: Any) -> Any:
    config = getattr(provider, "config", None)
    return config.get("priority") if isinstance(config, Mapping) else None
