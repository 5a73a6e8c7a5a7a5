"""A session's parts around the streaming loop, for its tests: a provider that streams, recorded events."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
from amplifier_core.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall, ToolCallBlock
from amplifier_core.models import HookResult
from amplifier_core.testing import MockContextManager, MockCoordinator
from amplifier_module_loop_streaming import Settings, StreamingOrchestrator


def calls(*names: str, text: str = "") -> ChatResponse:
    """A reply that calls tools without arguments."""
    made = [ToolCall(id=f"id-{index}", name=name, arguments={}) for index, name in enumerate(names)]
    blocks: list[Any] = [TextBlock(text=text)] if text else []
    blocks += [ToolCallBlock(id=call.id, name=call.name, input={}) for call in made]
    return ChatResponse(content=blocks, tool_calls=made)


class Provider:
    """Answers from a list: a text comes word by word, a list piece by piece; an exception in it is raised."""

    name = "test"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        self.tools: list[list[str]] = []
        self.judgements: list[str] = []
        self.closed = 0

    async def stream(self, request: ChatRequest, tools: list[Any] | None = None) -> AsyncIterator[Any]:
        self.requests.append(request)
        self.tools.append([tool.name for tool in tools or []])
        answer = self.answers.pop(0)
        try:
            for piece in _pieces(answer):
                if isinstance(piece, Exception):
                    raise piece
                yield await piece() if callable(piece) else piece
        finally:
            self.closed += 1

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        self.requests.append(request)
        return ChatResponse(content=[TextBlock(text=self.judgements.pop(0))])

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])


def _pieces(answer: Any) -> list[Any]:
    if isinstance(answer, str):
        words = re.findall(r"\S+\s*", answer)
        return [*({"content": word} for word in words), ChatResponse(content=[TextBlock(text=answer)])]
    return answer if isinstance(answer, list) else [answer]


class Stage:
    """A session's parts around the orchestrator."""

    def __init__(self, *answers: Any, tools: list[Any] | None = None, **settings: Any) -> None:
        self.provider: Any = Provider(*answers)
        self.coordinator = MockCoordinator()
        self.context = MockContextManager()
        self.coordinator.mount_points["context"] = self.context
        self.tools = {tool.name: tool for tool in tools or []}
        self.orchestrator = StreamingOrchestrator(Settings(**settings))
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

    async def play(self, prompt: str = "go", **others: Any) -> str:
        with anyio.fail_after(60):
            return await self.orchestrator.execute(
                prompt=prompt,
                context=self.context,
                providers={"test": self.provider, **others},
                tools=self.tools,
                hooks=self.coordinator.hooks,
                coordinator=self.coordinator,
            )

    @property
    def said(self) -> list[tuple[str, Any]]:
        """The conversation, each message as its role and text."""
        found = []
        for message in self.context.messages:
            content = message["content"]
            if isinstance(content, list):
                content = "".join(block.get("text", "") for block in content)
            found.append((message["role"], content))
        return found

    def emitted(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == event]
