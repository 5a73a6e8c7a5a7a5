"""A provider that gives one and the same answer, for testing whatever asks providers.

It has the contract's methods and no more: orchestrators look for optional ones, and a mock that seems to have them
all would lead them astray.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

from paddock_sdk.contract.message_models import ChatRequest, ChatResponse, TextBlock, ToolCall, Usage
from paddock_sdk.contract.models import ModelInfo, ProviderInfo

__all__ = ["MockProvider"]


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
