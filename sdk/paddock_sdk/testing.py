"""What an author needs to test a module without a host: mocks of its surroundings in a session, and a coordinator.

All runs in the test's own process, on the same kernel classes as a session. Objects that ask people, keep a
conversation or answer calls are `AsyncMock`s, so a test may assert on them or replace their `side_effect`. A mock has
only the contract's methods, since code looks for optional ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from copy import copy
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

from paddock_sdk.contract.events import SESSION_END, SESSION_START
from paddock_sdk.contract.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall, Usage
from paddock_sdk.contract.models import HookResult, ModelInfo, ProviderInfo, ToolResult
from paddock_sdk.kernel.coordinator import ModuleCoordinator

__all__ = [
    "MockCoordinator",
    "TestCoordinator",
    "MockContextManager",
    "MockProvider",
    "MockTool",
    "EventRecorder",
    "ScriptedOrchestrator",
    "create_test_coordinator",
    "wait_for",
]


class MockCoordinator(ModuleCoordinator):
    """A coordinator outside any session, with real behaviour and mocks for the objects that ask people.

    It records every mount and unmount that succeeded through its methods. Objects placed by writing to `mount_points`
    work as in a session, but are not part of that record.
    """

    # pytest would otherwise try to collect it under its other name, which starts with "Test".
    __test__ = False

    def __init__(self) -> None:
        session = SimpleNamespace(
            session_id="test-session",
            parent_id=None,
            config={"session": {"orchestrator": "test-orchestrator", "context": "test-context"}},
        )
        # Showing a message is a plain call: an asynchronous mock would leave a coroutine that is never awaited.
        super().__init__(
            session=session, approval_system=AsyncMock(), display_system=AsyncMock(show_message=Mock(return_value=None))
        )
        self.mount_history: list[dict[str, Any]] = []
        self.unmount_history: list[dict[str, Any]] = []

    def mount(self, mount_point: str, module: Any, name: str | None = None) -> Awaitable[Any]:
        done = super().mount(mount_point, module, name)
        self.mount_history.append({"mount_point": mount_point, "module": module, "name": name})
        return done

    def unmount(self, mount_point: str, name: str | None = None) -> Awaitable[Any]:
        done = super().unmount(mount_point, name)
        self.unmount_history.append({"mount_point": mount_point, "name": name})
        return done

    def get_mounted(self, mount_point: str) -> Any:
        """Return the object mounted at a point, or an empty dict."""
        return self.get(mount_point) or {}


TestCoordinator = MockCoordinator


class MockContextManager:
    """A conversation that is a list.

    It never compacts, `clear` leaves the list alone, and there is no `set_messages`: a test changes `messages` itself.
    """

    def __init__(self, messages: list[dict[str, Any]] | None = None) -> None:
        self.messages: list[dict[str, Any]] = [] if messages is None else messages
        self.add_message = AsyncMock(side_effect=self._add_message)
        self.get_messages = AsyncMock(side_effect=self._get_messages)
        self.get_messages_for_request = AsyncMock(side_effect=self._get_messages_for_request)
        self.clear = AsyncMock(return_value=None)
        self._should_compact = AsyncMock(return_value=False)
        self._compact_internal = AsyncMock(return_value=None)

    async def _add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def _get_messages(self) -> list[dict[str, Any]]:
        return self.messages

    async def _get_messages_for_request(
        self, token_budget: int | None = None, provider: Any | None = None
    ) -> list[dict[str, Any]]:
        return list(self.messages)


class MockProvider:
    """Answers every request with the same text and never calls a tool; `complete` is an `AsyncMock`."""

    def __init__(self, name: str = "mock", answer: str = "Hello.") -> None:
        self.name = name
        self.answer = answer
        self.complete = AsyncMock(side_effect=self._complete)

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id=self.name, display_name="Mock provider", defaults={"context_window": 8192})

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id="mock", display_name="Mock model", context_window=8192, max_output_tokens=1024)]

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])

    async def _complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        return ChatResponse(content=[TextBlock(text=self.answer)], usage=usage, finish_reason="stop")


class MockTool:
    """A tool that gives one answer and records its calls; `return_value` is another word for `output`."""

    def __init__(
        self,
        name: str = "mock_tool",
        output: Any = "Success",
        *,
        description: str | None = None,
        return_value: Any = None,
    ) -> None:
        self.name = name
        self.description = f"Mock tool {name}" if description is None else description
        self.output = output if return_value is None else return_value
        self.input_schema: dict[str, Any] = {"type": "object", "properties": {}}
        self.call_count = 0
        self.last_input: dict[str, Any] | None = None
        self.execute = AsyncMock(side_effect=self._execute)

    async def _execute(self, input: dict[str, Any]) -> ToolResult:
        self.call_count += 1
        self.last_input = input
        return self.answer(input)

    def get_schema(self) -> dict[str, Any]:
        """Return the input schema, by the name that older tools give it."""
        return self.input_schema

    def answer(self, input: dict[str, Any]) -> ToolResult:
        """Return the answer to a call; subclasses may override it."""
        return ToolResult(success=True, output=self.output)


class EventRecorder:
    """Stands in for the hook registry: records events as (name, data) pairs, in order, and refuses none."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def emit(self, event: str, data: Any) -> HookResult:
        """Record one event, with a shallow copy of its data."""
        self.events.append((event, copy(data)))
        return HookResult(action="continue")

    record = emit

    def clear(self) -> None:
        """Forget all recorded events."""
        self.events.clear()

    def get_events(self, event_type: str | None = None) -> list[tuple[str, Any]]:
        """Return the recorded events, or those of one name."""
        return [event for event in self.events if event_type is None or event[0] == event_type]


class ScriptedOrchestrator:
    """Answers each prompt with the next line of its script, after the last one with "DONE".

    Each execution emits the start and end of a session and adds the prompt and the answer to the context; no provider
    or tool is called.
    """

    def __init__(self, responses: Iterable[str]) -> None:
        self.responses = list(responses)
        self.call_count = 0

    async def execute(self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, **kwargs: Any) -> str:
        """Return the next answer."""
        await hooks.emit(SESSION_START, {"prompt": prompt})
        response = self.responses[self.call_count] if self.call_count < len(self.responses) else "DONE"
        self.call_count += 1
        await context.add_message({"role": "user", "content": prompt})
        await context.add_message({"role": "assistant", "content": response})
        await hooks.emit(SESSION_END, {"response": response})
        return response


class _EchoTool(MockTool):
    def answer(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(success=True, output=input)


class _FailingTool(MockTool):
    def answer(self, input: dict[str, Any]) -> ToolResult:
        return ToolResult(success=False, error={"message": "this tool always fails"})


def create_test_coordinator() -> MockCoordinator:
    """Return a coordinator with the tools `echo` and `fail` and an empty context."""
    coordinator = MockCoordinator()
    # Written in place: the function is synchronous, and the record of mounts starts empty.
    coordinator.mount_points["tools"]["echo"] = _EchoTool("echo", description="Answers its input")
    coordinator.mount_points["tools"]["fail"] = _FailingTool("fail", description="Always fails")
    coordinator.mount_points["context"] = MockContextManager()
    return coordinator


_POLL_INTERVAL = 0.01  # seconds


async def wait_for(condition: Callable[[], bool], timeout: float = 1.0) -> bool:
    """Return True once the condition holds, False when it does not within `timeout` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while not condition():
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(_POLL_INTERVAL)
    return True
