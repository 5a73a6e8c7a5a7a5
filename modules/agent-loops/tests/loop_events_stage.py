"""A session's parts around the event-driven loop, for its tests: a scripted provider, recorded events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall
from amplifier_core.models import HookResult
from amplifier_core.testing import MockContextManager, MockCoordinator
from amplifier_module_loop_events import EventsOrchestrator, Settings


def calls(*names: str) -> ChatResponse:
    """A reply that calls tools without arguments."""
    made = [ToolCall(id=f"id-{index}", name=name, arguments={}) for index, name in enumerate(names)]
    return ChatResponse(content=[], tool_calls=made)


class Provider:
    """Answers from a list and keeps the requests it got."""

    name = "test"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer()
        return ChatResponse(content=[TextBlock(text=answer)]) if isinstance(answer, str) else answer

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])


class Stage:
    """A session's parts around the orchestrator."""

    def __init__(self, *answers: Any, tools: list[Any] | None = None, **settings: Any) -> None:
        self.provider = Provider(*answers)
        self.coordinator = MockCoordinator()
        self.context = MockContextManager()
        self.coordinator.mount_points["context"] = self.context
        self.tools = {tool.name: tool for tool in tools or []}
        self.orchestrator = EventsOrchestrator(Settings(**settings))
        self.events: list[tuple[str, dict[str, Any]]] = []

    def record(self, *names: str) -> None:
        async def note(event: str, data: dict[str, Any]) -> None:
            self.events.append((event, data))

        for name in names:
            self.coordinator.hooks.register(name, note, priority=1000)

    def hook(self, event: str, act: Callable[[dict[str, Any]], HookResult | None]) -> None:
        async def answer(_: str, data: dict[str, Any]) -> HookResult | None:
            return act(data)

        self.coordinator.hooks.register(event, answer)

    async def play(self, prompt: str = "go") -> str:
        with anyio.fail_after(60):
            return await self.orchestrator.execute(
                prompt=prompt,
                context=self.context,
                providers={"test": self.provider},
                tools=self.tools,
                hooks=self.coordinator.hooks,
                coordinator=self.coordinator,
            )

    def offered(self, request: int) -> list[str]:
        """The tools that a request offered."""
        return [spec.name for spec in self.provider.requests[request].tools or []]

    @property
    def tool_results(self) -> list[str]:
        return [message["content"] for message in self.context.messages if message["role"] == "tool"]

    def emitted(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == event]
