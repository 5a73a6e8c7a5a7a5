"""A session's parts around a loop, for the tests of all loops: a scripted provider, recorded events, hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from agent_loop.orchestrator import Orchestrator
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
)
from amplifier_core.models import HookResult
from amplifier_core.testing import MockContextManager, MockCoordinator

Answer = str | ChatResponse | Exception | Callable[[ChatRequest], Awaitable[Any]]


def calls(*wanted: ToolCall | str, text: str = "", thinking: str = "") -> ChatResponse:
    """A reply that calls tools; a bare name stands for a call without arguments."""
    made = [
        want if isinstance(want, ToolCall) else ToolCall(id=f"id-{index}", name=want, arguments={})
        for index, want in enumerate(wanted)
    ]
    blocks: list[Any] = [ThinkingBlock(thinking=thinking, signature="sig")] if thinking else []
    blocks += [TextBlock(text=text)] if text else []
    blocks += [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in made]
    return ChatResponse(content=blocks, tool_calls=made)


class Provider:
    """Answers from a list and keeps the requests it got."""

    name = "test"

    def __init__(self, *answers: Any, priority: Any = None) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        if priority is not None:
            self.priority = priority

    async def complete(self, request: ChatRequest, **kwargs: Any) -> Any:
        self.requests.append(request)
        answer: Answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return await answer(request)
        return ChatResponse(content=[TextBlock(text=answer)]) if isinstance(answer, str) else answer

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])


class Stage:
    """A session's parts around the orchestrator, on the real kernel classes."""

    def __init__(self, orchestrator: Orchestrator, provider: Any, tools: list[Any] | None) -> None:
        self.orchestrator: Any = orchestrator
        self.provider = provider
        self.coordinator = MockCoordinator()
        self.context = MockContextManager()
        self.coordinator.mount_points["context"] = self.context
        self.tools = {tool.name: tool for tool in tools or []}
        self.events: list[tuple[str, dict[str, Any]]] = []

    def record(self, *names: str) -> None:
        async def note(event: str, data: dict[str, Any]) -> None:
            self.events.append((event, data))

        for name in names:
            self.coordinator.hooks.register(name, note, priority=1000)

    def hook(self, event: str, result: HookResult | Callable[[dict[str, Any]], HookResult | None]) -> None:
        async def answer(_: str, data: dict[str, Any]) -> HookResult | None:
            return result(data) if callable(result) else result

        self.coordinator.hooks.register(event, answer)

    async def play(self, prompt: str = "go", **others: Any) -> str:
        with anyio.fail_after(60):
            answer: str = await self.orchestrator.execute(
                prompt=prompt,
                context=self.context,
                providers={"test": self.provider, **others},
                tools=self.tools,
                hooks=self.coordinator.hooks,
                coordinator=self.coordinator,
            )
        return answer

    async def begun(self, started: asyncio.Event) -> asyncio.Task[str]:
        """Begin a turn, and return it when something in it has started."""
        turn = asyncio.create_task(self.play())
        with anyio.fail_after(60):
            await started.wait()
        return turn

    def emitted(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == event]

    def assert_whole(self) -> None:
        """Every tool call has exactly one answer, right after the reply, in the order of the calls."""
        messages = self.context.messages
        for index, message in enumerate(messages):
            ids = [call["id"] for call in message.get("tool_calls", [])]
            assert [entry.get("tool_call_id") for entry in messages[index + 1 : index + 1 + len(ids)]] == ids
