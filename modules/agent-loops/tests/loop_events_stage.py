"""The event-driven loop on its stage, for its tests."""

from __future__ import annotations

from typing import Any

import loop_stage
from amplifier_module_loop_events import EventsOrchestrator, Settings
from loop_stage import Answer, Provider


class Stage(loop_stage.Stage):
    def __init__(self, *answers: Answer, tools: list[Any] | None = None, **settings: Any) -> None:
        super().__init__(EventsOrchestrator(Settings(**settings)), Provider(*answers), tools)

    def offered(self, request: int) -> list[str]:
        """The tools that a request offered."""
        return [spec.name for spec in self.provider.requests[request].tools or []]

    @property
    def tool_results(self) -> list[str]:
        return [message["content"] for message in self.context.messages if message["role"] == "tool"]
