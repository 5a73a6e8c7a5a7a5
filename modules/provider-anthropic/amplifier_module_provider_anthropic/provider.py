"""The provider: answers one request of the contract with as many requests to Anthropic as needed.

`complete` announces the answer as it arrives and returns it whole. A failed request is repeated. Cancelling it closes
the connection. The provider keeps no conversation, only the sum of costs, and the thinking blocks that the vendor
refused.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx2
from amplifier_core import capabilities
from amplifier_core.llm_errors import LLMError
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    Degradation,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import ConfigField, ModelInfo, ProviderInfo

from . import failures
from .conversation import MessageList
from .failures import Asked
from .observers import Observers
from .prices import Catalogue, Spent
from .reply import Reply
from .settings import DEFAULT_MODEL, Settings
from .wire_request import Parameters, Sending, parameters

logger = logging.getLogger(__name__)

_CAPABILITIES = (capabilities.TOOLS, capabilities.STREAMING, capabilities.THINKING, capabilities.VISION)
_FINISHED = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_CONNECT_SECONDS = 15.0
_REMEMBERED_REPAIRS = 10_000


class AnthropicProvider:
    """The provider protocol over the SDK's client."""

    def __init__(
        self,
        settings: Settings,
        hooks: Any | None = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._hooks = hooks
        self._transport = transport
        self._sleep = sleep
        self._chance = chance
        self._catalogue = Catalogue(settings.prices)
        self._made: anthropic.AsyncAnthropic | None = None
        self._unusable: frozenset[str] = frozenset()  # signatures of thinking that the vendor refused
        self._announced: set[str] = set()  # repaired calls that hooks know of
        self._cost: Decimal | None = None
        self.priority = settings.priority
        self.default_model = settings.default_model

    @property
    def name(self) -> str:
        return self._settings.name

    def get_info(self) -> ProviderInfo:
        """Return the provider's description; the sizes in `defaults` are in tokens."""
        model = self._catalogue.of(self.default_model)
        return ProviderInfo(
            id="anthropic",
            display_name="Anthropic",
            credential_env_vars=["ANTHROPIC_API_KEY"],
            capabilities=list(_CAPABILITIES),
            defaults={
                "model": self.default_model,
                "context_window": model.context_window,
                "max_output_tokens": min(self._settings.max_output_tokens, model.max_output_tokens),
            },
            config_fields=[
                ConfigField(
                    id="api_key",
                    display_name="API key",
                    prompt="Your key for Anthropic's API",
                    field_type="secret",
                    env_var="ANTHROPIC_API_KEY",
                ),
                ConfigField(
                    id="default_model",
                    display_name="Model",
                    prompt="The model to ask",
                    required=False,
                    default=DEFAULT_MODEL,
                ),
            ],
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that the key may use, the newest first; without a key, the known ones.

        Raises:
            LLMError: they cannot be had.
        """
        if not self._settings.api_key:
            return [self._described(name) for name in self._catalogue.names()]
        asked = self._asked(self.default_model)
        try:
            return [self._described(one.id, one) async for one in self._client(asked).models.list(limit=1000)]
        except Exception as error:
            raise failures.failure_of(error, asked) from error

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the model's answer; its pieces are announced as they come, unless `metadata` has `stream: false`.

        An answer that breaks off is requested again, and its pieces then come from the beginning.

        Raises:
            LLMError: there is no answer.
        """
        model = str(kwargs.get("model") or request.model or self.default_model)
        observers = Observers(self._hooks, self.name, model, request.metadata)
        asked = self._asked(model)
        started = time.monotonic()
        conversation = MessageList.of(request.messages, self._unusable)
        if not conversation.messages:
            raise failures.nothing_said(asked)
        await self._tell_repairs(conversation, observers)
        sending = Sending(parameters(request, model, self._catalogue.of(model), self._settings, conversation))
        await observers.asked(len(sending.parameters["messages"]), len(request.tools or ()))
        replies: list[Reply] = []
        while True:
            reply = await self._replied(sending, replies[-1].next_index if replies else 0, asked, observers)
            replies.append(reply)
            so_far = reply.wire_blocks()
            is_over = reply.stop_reason != "max_tokens" or reply.has_calls or not so_far
            if is_over or len(replies) > self._settings.max_continuations:
                break
            sending.go_on(so_far)
        response = self._response(request, replies, asked)
        await observers.answered(response, time.monotonic() - started)
        return response

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls of one of this provider's responses."""
        return list(response.tool_calls or [])

    def cost(self) -> dict[str, str | None]:
        """Return the cost of all answers in US dollars, as far as the prices are known."""
        return {"cost_usd": None if self._cost is None else str(self._cost)}

    async def close(self) -> None:
        """Close the connections."""
        client, self._made = self._made, None
        if client is not None:
            await client.close()

    # -- one answer ------------------------------------------------------------------------

    async def _replied(
        self,
        sending: Sending,
        first_index: int,
        asked: Asked,
        observers: Observers,
    ) -> Reply:
        """Return one reply, with as many tries as it takes and settings allow.

        Thinking that the vendor refuses is left out of `sending` from then on, and of later requests.
        """
        attempt, was_stripped = 0, False
        while True:
            reply = Reply(first_index)
            try:
                await self._read(sending.parameters, reply, asked, observers)
                return reply
            except Exception as error:
                failure = failures.failure_of(error, asked)
                await observers.over(failure)
                if failures.is_about_thinking(failure) and not was_stripped:
                    was_stripped, refused = True, sending.leave_out_thinking()
                    if refused is not None:
                        logger.warning("left out %d thinking blocks that the vendor takes no more", len(refused))
                        self._unusable |= refused
                        continue
                attempt += 1
                delay = self._delay(attempt, failure)
                if delay is None:
                    # The SDK's traceback adds nothing to a failure that has a class of its own.
                    raise failures.given_up(failure, attempt) from (error if type(failure) is LLMError else None)
            await observers.retried(failure, attempt, self._settings.max_retries, delay)
            await self._sleep(delay)

    def _delay(self, retry: int, error: LLMError) -> float | None:
        """Return the seconds to wait before a retry, the server's if they are more; None if there is none."""
        wanted, most = getattr(error, "retry_after", None) or 0.0, self._settings.max_retry_delay
        if not error.retryable or retry > self._settings.max_retries or wanted > most:
            return None
        # Between half and all of it, so that clients that failed together do not come again together.
        return max(wanted, min(2.0 ** (retry - 1), most) * (0.5 + self._chance() / 2))

    async def _read(self, sent: Parameters, reply: Reply, asked: Asked, observers: Observers) -> None:
        """Make one request and read its answer into `reply`; the connection is closed when this ends."""
        stream = await self._client(asked).messages.create(**sent, stream=True)
        async with stream:
            content_type = stream.response.headers.get("content-type", "")
            if not content_type.startswith("text/event-stream"):
                raise failures.no_events(content_type, asked)
            async for event in stream:
                for shown in reply.take(event):
                    await observers.show(shown)
        if not reply.is_whole:
            raise failures.ended_early(asked)
        await observers.over()
        reply.content()  # raises for a call that cannot be carried out

    async def _tell_repairs(self, conversation: MessageList, observers: Observers) -> None:
        new = [one for one in conversation.repairs if one.tool_call_id not in self._announced]
        if new:
            if len(self._announced) < _REMEMBERED_REPAIRS:
                self._announced.update(one.tool_call_id for one in new)
            await observers.repaired(new)

    def _response(self, request: ChatRequest, replies: list[Reply], asked: Asked) -> ChatResponse:
        last = replies[-1]
        if last.stop_reason == "refusal":
            raise failures.refused_answer(last.refusal, asked)
        content: list[Any] = []
        for number, reply in enumerate(replies):
            # Thoughts after a request to go on belong to a conversation with that request, which is not kept.
            blocks = reply.content(with_thinking=number == 0)
            joins = bool(number and blocks and content) and isinstance(blocks[0], TextBlock)
            if joins and isinstance(content[-1], TextBlock):
                content[-1] = TextBlock(text=content[-1].text + blocks.pop(0).text)
            content += blocks
        if last.was_cut and not any(isinstance(block, TextBlock | ToolCallBlock) for block in content):
            raise failures.only_thoughts(self._settings.max_output_tokens, asked)
        calls = [
            ToolCall(id=block.id, name=block.name, arguments=block.input)
            for block in content
            if isinstance(block, ToolCallBlock)
        ]
        return ChatResponse(
            content=content,
            tool_calls=calls or None,
            usage=self._usage(replies, asked.model),
            finish_reason="tool_calls" if calls else _FINISHED.get(last.stop_reason, last.stop_reason),
            degradation=_degradation(request),
            metadata={"model": last.model or asked.model},
        )

    def _usage(self, replies: list[Reply], model: str) -> Usage:
        spent, cost = Spent(), None
        for reply in replies:
            spent.add(reply.spent)
        prices = self._catalogue.of(model).prices
        if prices is not None:
            cost = sum((prices.cost(reply.spent) for reply in replies), Decimal(0))
            self._cost = cost + (self._cost or 0)
        return Usage(
            input_tokens=spent.read,
            output_tokens=spent.output,
            total_tokens=spent.read + spent.output,
            reasoning_tokens=spent.thinking,
            cache_read_tokens=spent.cache_read,
            cache_write_tokens=spent.cache_write,
            cost_usd=cost,
        )

    # -- the client ------------------------------------------------------------------------

    def _asked(self, model: str) -> Asked:
        return Asked(self.name, model, urlsplit(self._settings.base_url).netloc, self._settings.key_place)

    def _client(self, asked: Asked) -> anthropic.AsyncAnthropic:
        if not self._settings.api_key:
            raise failures.no_key(asked)
        if self._made is None:
            http_client, silence = None, self._settings.timeout_seconds
            if self._transport is not None:
                http_client = anthropic.DefaultAsyncHttpxClient(transport=self._transport)
            self._made = anthropic.AsyncAnthropic(
                api_key=self._settings.api_key,
                base_url=self._settings.base_url,
                timeout=httpx2.Timeout(silence, connect=min(_CONNECT_SECONDS, silence)),
                max_retries=0,  # it would try again unseen
                http_client=http_client,
            )
        return self._made

    def _described(self, name: str, listed: Any | None = None) -> ModelInfo:
        """Return a model with the vendor's data, or else with the known facts."""
        known = self._catalogue.of(name)
        return ModelInfo(
            id=name,
            display_name=getattr(listed, "display_name", None) or name,
            context_window=getattr(listed, "max_input_tokens", None) or known.context_window,
            max_output_tokens=getattr(listed, "max_tokens", None) or known.max_output_tokens,
            capabilities=list(_CAPABILITIES),
            pricing=None if known.prices is None else known.prices.pricing(),
        )


def _degradation(request: ChatRequest) -> Degradation | None:
    if request.response_format is None or request.response_format.type != "json":
        return None
    return Degradation(requested="json", actual="text", reason="Anthropic returns JSON by a schema only")
