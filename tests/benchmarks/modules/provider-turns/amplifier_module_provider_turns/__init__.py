"""A provider whose every turn is one tool call and then an answer."""

from __future__ import annotations

from typing import Any

from amplifier_core import ChatRequest, ChatResponse, ModelInfo, ProviderInfo, TextBlock, ToolCall, ToolCallBlock

__amplifier_module_type__ = "provider"


class Turns:
    """Asks for the tool `trivial` whenever the last message is a person's."""

    name = "turns"
    priority = 0

    def get_info(self) -> ProviderInfo:
        """Return what there is to know."""
        return ProviderInfo(id="turns", display_name="Turns")

    async def list_models(self) -> list[ModelInfo]:
        """Return none."""
        return []

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return a tool call, or the answer once it was made."""
        if request.messages[-1].role == "tool":
            return ChatResponse(content=[TextBlock(text="done")], finish_reason="stop")
        return ChatResponse(
            content=[ToolCallBlock(id="call_1", name="trivial", input={})],
            tool_calls=[ToolCall(id="call_1", name="trivial", arguments={})],
            finish_reason="tool_use",
        )

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the calls of a response."""
        return response.tool_calls or []


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    """Mount the provider."""
    await coordinator.mount("providers", Turns(), name="turns")
