"""A model without any state of its own: what it answers depends on the conversation alone, so it may die anywhere."""

from __future__ import annotations

import uuid
from typing import Any

from amplifier_core.message_models import ChatResponse, TextBlock, ToolCall, ToolCallBlock
from amplifier_core.models import ModelInfo, ProviderInfo

_ROUNDS = 2
_CALLS = 2  # in each round


class Stateless:
    """Asks for two calls, then for two more, then says that it is done."""

    name = "stateless"

    def get_info(self) -> ProviderInfo:
        sizes = {"context_window": 1_000_000, "max_output_tokens": 8192}
        return ProviderInfo(id="stateless", display_name="Stateless", defaults={"model": "m", **sizes})

    async def list_models(self) -> list[ModelInfo]:
        return [ModelInfo(id="m", display_name="m", context_window=1_000_000, max_output_tokens=8192)]

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])

    async def complete(self, request: Any, **kwargs: Any) -> ChatResponse:
        roles = [message.role for message in request.messages]
        last = max((at for at, role in enumerate(roles) if role == "user"), default=0)
        if roles[last:].count("assistant") >= _ROUNDS:
            return ChatResponse(content=[TextBlock(text="done")])
        calls = [(uuid.uuid4().hex, {"what": uuid.uuid4().hex}) for _ in range(_CALLS)]
        return ChatResponse(
            content=[ToolCallBlock(id=id, name="mark", input=given) for id, given in calls],
            tool_calls=[ToolCall(id=id, name="mark", arguments=given) for id, given in calls],
        )


async def mount(coordinator: Any, config: dict[str, Any]) -> None:
    await coordinator.mount("providers", Stateless(), name="stateless")
