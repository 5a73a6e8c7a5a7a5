"""A provider that emits its answer delta by delta, as providers that stream by themselves do, and times that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

from amplifier_core import ChatRequest, ChatResponse, ModelInfo, ProviderInfo, TextBlock, ToolCall

__amplifier_module_type__ = "provider"

_DELTA = "a few words, "


class Deltas:
    """Says as many deltas as a request's metadata asks for, so many of them at a time."""

    name = "deltas"
    priority = 0

    def __init__(self, hooks: Any) -> None:
        self._hooks = hooks

    def get_info(self) -> ProviderInfo:
        """Return what there is to know."""
        return ProviderInfo(id="deltas", display_name="Deltas")

    async def list_models(self) -> list[ModelInfo]:
        """Return none."""
        return []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Emit the deltas; return how many were emitted in a second."""
        order = request.metadata or {}
        numbers = iter(range(order["deltas"]))
        before = time.perf_counter()
        await asyncio.gather(*(self._emit(numbers) for _ in range(order["in_flight"])))
        rate = order["deltas"] / (time.perf_counter() - before)
        return ChatResponse(content=[TextBlock(text="done")], metadata={"rate": rate})

    async def stream(self, request: ChatRequest, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield as many deltas as the last message says."""
        for _ in range(int(str(request.messages[-1].content))):
            yield {"block_type": "text", "content": _DELTA}

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return response.tool_calls or []

    async def _emit(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            data = {"block_type": "text", "block_index": 0, "text": _DELTA, "sequence": number}
            await self._hooks.emit("llm:stream_block_delta", data)


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the provider."""
    await coordinator.mount("providers", Deltas(coordinator.hooks), name="deltas")
