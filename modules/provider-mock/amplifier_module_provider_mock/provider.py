"""A provider that answers from a script.

It is deterministic: the same script and the same calls give the same replies, ids and token counts. It keeps no
conversation, touches no network, and raises only the errors in the script.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from amplifier_core import capabilities
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import ModelInfo, Pricing, ProviderInfo

from .script import Script, ScriptedReply
from .settings import Settings

_PLACEHOLDER = re.compile(r"\{(prompt|last_tool_result)\}")
_WORD = re.compile(r"\s*\S+|\s+")
_MILLION = Decimal(1_000_000)
_IDS = ("turn_id", "span_id", "parent_span_id", "iteration")  # ids that distinguish a loop's requests
_START, _DELTA, _END = ANNOUNCED = ("llm:stream_block_start", "llm:stream_block_delta", "llm:stream_block_end")
_CAPABILITIES = (capabilities.TOOLS, capabilities.STREAMING, capabilities.THINKING, capabilities.LOCAL)


class MockProvider:
    """The provider protocol over a `Script`."""

    def __init__(self, settings: Settings, hooks: Any | None = None) -> None:
        self._settings = settings
        self._hooks = hooks
        self._cost = Decimal(0)
        number = len(settings.replies)
        played = f"all {number} scripted replies were used" if number else "it has no scripted replies"
        told = f"The mock provider's script is over: {played}. Add to `responses`, or set `fallback`."
        self._script = Script(settings.replies, settings.fallback or ScriptedReply(text=told))
        self.priority = settings.priority
        self.default_model = settings.default_model

    @property
    def name(self) -> str:
        return self._settings.name

    def get_info(self) -> ProviderInfo:
        """Return the claimed description; the sizes in `defaults` are in tokens."""
        return ProviderInfo(
            id=self.name,
            display_name="Mock provider",
            capabilities=list(_CAPABILITIES),
            defaults={
                "model": self.default_model,
                "context_window": self._settings.context_window,
                "max_output_tokens": self._settings.max_output_tokens,
            },
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the one model there is."""
        prices, pricing = self._settings.prices, None
        if prices is not None:
            pricing = Pricing(input_per_million=float(prices.input), output_per_million=float(prices.output))
        return [
            ModelInfo(
                id=self.default_model,
                display_name="Scripted replies",
                context_window=self._settings.context_window,
                max_output_tokens=self._settings.max_output_tokens,
                capabilities=list(_CAPABILITIES),
                pricing=pricing,
            )
        ]

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the next scripted reply, after its delay; with `deltas`, it is emitted word by word first.

        Raises:
            LLMError: the script contains it.
        """
        reply = self._script.next()
        number = self._script.used  # taken before the delay: calls that overlap keep their own numbers
        model = str(kwargs.get("model") or request.model or self.default_model)
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.error is not None:
            raise reply.error.exception(self.name, model)
        response = self._response(reply, request, number, model)
        prices, usage = self._settings.prices, response.usage
        if prices is not None and usage is not None:
            self._cost += (usage.input_tokens * prices.input + usage.output_tokens * prices.output) / _MILLION
        given = request.metadata or {}
        if self._settings.deltas and self._hooks is not None and given.get("stream") is not False:
            ids = {name: given[name] for name in _IDS if name in given}
            await self._show(response, {"provider": self.name, **ids, "request_id": f"{self.name}_{number}"})
        return response

    async def _show(self, response: ChatResponse, about: Mapping[str, Any]) -> None:
        """Emit the texts of an answer word by word."""
        emit = self._hooks.emit  # type: ignore[union-attr]
        for index, block in enumerate(response.content):
            if isinstance(block, ThinkingBlock | TextBlock):
                place = {**about, "block_index": index, "block_type": block.type}
                await emit(_START, place)
                text = block.text if isinstance(block, TextBlock) else block.thinking
                for sequence, word in enumerate(_WORD.findall(text)):
                    await emit(_DELTA, {**place, "sequence": sequence, "text": word})
                await emit(_END, place)

    def cost(self) -> dict[str, str]:
        """Return the cost of all answers in US dollars, by the configured prices."""
        return {"cost_usd": str(self._cost)}

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls of one of this provider's responses."""
        return list(response.tool_calls or [])

    def _response(
        self,
        reply: ScriptedReply,
        request: ChatRequest,
        number: int,
        model: str,
    ) -> ChatResponse:
        content: list[Any] = []
        if reply.thinking is not None:
            content.append(ThinkingBlock(thinking=reply.thinking, signature=f"{self.name}-signature-{number}"))
        if reply.text is not None:
            content.append(TextBlock(text=_filled(reply.text, request)))
        calls = [
            ToolCall(
                id=call.id or f"{self.name}_call_{number}_{index}",
                name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
            )
            for index, call in enumerate(reply.tool_calls, start=1)
        ]
        content += [ToolCallBlock(id=call.id, name=call.name, input=copy.deepcopy(call.arguments)) for call in calls]
        spent = _tokens(json.dumps(message.model_dump(mode="json"), sort_keys=True) for message in request.messages)
        answered = _tokens(json.dumps(block.model_dump(mode="json"), sort_keys=True) for block in content)
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=Usage(input_tokens=spent, output_tokens=answered, total_tokens=spent + answered),
            finish_reason="tool_calls" if calls else "stop",
            metadata={"model": model},
        )


def _filled(template: str, request: ChatRequest) -> str:
    """Replace the placeholders in one pass, so that braces in the inserted text stay as they are."""
    values = {"prompt": _last(request, "user"), "last_tool_result": _last(request, "tool")}
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _last(request: ChatRequest, role: str) -> str:
    for message in reversed(request.messages):
        # A hook may use the user's role; the prompt is the person's own message.
        if message.role == role and (message.metadata or {}).get("source") != "hook":
            return _plain(message)
    return ""


def _plain(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def _tokens(texts: Iterable[str]) -> int:
    return sum(len(text) for text in texts) // 4 + 1  # about four characters a token, and never none
