"""The provider: sends requests, repeats failed ones where that may help, and emits events about them.

It keeps no conversation, only the sum of its answers' costs. Cancelling a request closes its connection. Events:
`llm:request` and `llm:response` around an answer, `provider:retry` before each further try,
`provider:tool_sequence_repaired` once for each repaired call, and those of `ShownAnswer` for the pieces of an answer.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from decimal import Decimal
from typing import Any, Final

from amplifier_core import capabilities, events
from amplifier_core.llm_errors import ContentFilterError, LLMError
from amplifier_core.message_models import ChatRequest, ChatResponse, ToolCall
from amplifier_core.models import ConfigField, ModelInfo, ProviderInfo

from .asking import Asking, asking
from .endpoint import Endpoint
from .failures import given_up
from .prices import Catalogue
from .reply import Reply
from .settings import Settings
from .shown_answer import ShownAnswer

# For an unknown model: the defaults of small servers, since too small a value does less harm than too large a one.
_CONTEXT_WINDOW: Final = 32_768
_MAX_OUTPUT: Final = 4_096
_SPANS: Final = ("turn_id", "span_id", "parent_span_id", "iteration")
_REMEMBERED_REPAIRS: Final = 10_000


class OpenAIProvider:
    """The provider protocol over one `Endpoint`."""

    def __init__(
        self,
        settings: Settings,
        endpoint: Endpoint,
        hooks: Any | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._hooks = hooks
        self._sleep = sleep
        self._chance = chance
        self._catalogue = Catalogue(settings.prices, is_openai=settings.is_openai)
        self._cost: Decimal | None = None
        self._repaired: set[str] = set()
        self.name = settings.name
        self.priority = settings.priority
        self.default_model = settings.default_model

    def get_info(self) -> ProviderInfo:
        """Return the provider's description; the sizes in `defaults` are in tokens, of the default model."""
        window, most = self._sizes(self.default_model)
        return ProviderInfo(
            id="openai",
            display_name="OpenAI" if self._settings.is_openai else f"OpenAI-compatible ({self._settings.base_url})",
            credential_env_vars=["OPENAI_API_KEY"],
            capabilities=self._capabilities(),
            defaults={"model": self.default_model, "context_window": window, "max_output_tokens": most},
            config_fields=[
                ConfigField(
                    id="api_key",
                    display_name="API key",
                    prompt="The key of your account",
                    field_type="secret",
                    env_var="OPENAI_API_KEY",
                    required=self._settings.is_openai,
                ),
                ConfigField(
                    id="base_url",
                    display_name="Address",
                    prompt="Where the service is; leave it out for OpenAI's own",
                    env_var="OPENAI_BASE_URL",
                    required=False,
                ),
                ConfigField(
                    id="default_model",
                    display_name="Model",
                    prompt="The model to ask",
                    default=self.default_model,
                    required=not self._settings.is_openai,
                ),
            ],
        )

    async def list_models(self) -> list[ModelInfo]:
        """Return the models that the server lists, with the known facts about each; without a key, those of the table.

        Raises:
            LLMError: the list cannot be had.
        """
        listed = await self._endpoint.models() if self._endpoint.has_key else self._catalogue.models()
        found: list[ModelInfo] = []
        for id in sorted(listed):
            known, (window, most) = self._catalogue.of(id), self._sizes(id)
            found.append(
                ModelInfo(
                    id=id,
                    display_name=id,
                    context_window=window,
                    max_output_tokens=most,
                    capabilities=self._capabilities(),
                    pricing=None if known.prices is None else known.prices.pricing(),
                )
            )
        return found

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the model's answer; its pieces are announced as they come, unless `metadata` has `stream: false`.

        An answer that breaks off is requested again, and its pieces then come from the beginning.

        Raises:
            LLMError: there is no answer; it contains a remedy.
        """
        model = str(kwargs.get("model") or request.model or self.default_model)
        asked = asking(request, kwargs, model, self._catalogue.of(model), self._settings)
        given = request.metadata or {}
        span = {"provider": self.name, "model": model, **{name: given[name] for name in _SPANS if name in given}}
        await self._tell_of_repair(asked, span)
        about = {"message_count": len(asked.body["messages"]), "tools": len(asked.body.get("tools", ()))}
        await self._emit(events.LLM_REQUEST, {**span, **about})
        began, retry = time.monotonic(), 0
        while True:
            shown = ShownAnswer(None if given.get("stream") is False else self._hooks, span)
            try:
                response = await self._answer(asked, shown)
            except LLMError as error:
                await shown.abort(error)
                retry += 1
                delay = self._delay(retry, error)
                if delay is None:
                    raise given_up(error, retry) from error.__cause__
                fields = {
                    "attempt": retry,
                    "max_retries": self._settings.max_retries,
                    "delay": delay,
                    "retry_after": getattr(error, "retry_after", None),
                    "error": {"type": type(error).__name__, "msg": str(error)},
                }
                await self._emit(events.PROVIDER_RETRY, {**span, **fields})
            else:
                await self._tell_of_response(response, span, time.monotonic() - began)
                return response
            await self._sleep(delay)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        """Return the tool calls of one of this provider's responses."""
        return list(response.tool_calls or [])

    def cost(self) -> dict[str, str | None]:
        """Return the cost of all answers in US dollars, as far as the prices are known."""
        return {"cost_usd": None if self._cost is None else str(self._cost)}

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    def _delay(self, retry: int, error: LLMError) -> float | None:
        """Return the seconds to wait before a retry, the server's if they are more; None if there is none."""
        wanted, most = getattr(error, "retry_after", None) or 0.0, self._settings.max_retry_delay
        if not error.retryable or retry > self._settings.max_retries or wanted > most:
            return None
        # Between half and all of it, so that clients that failed together do not come again together.
        return max(wanted, min(2.0 ** (retry - 1), most) * (0.5 + self._chance() / 2))

    async def _answer(self, asked: Asking, shown: ShownAnswer) -> ChatResponse:
        """Return the answer of one try, continued where it is cut short."""
        reply = Reply()
        for left in range(self._settings.max_continuations, -1, -1):
            body = asked.going_on(reply.text)
            async with aclosing(self._endpoint.chunks(body, asked.timeout)) as chunks:
                async for chunk in chunks:
                    for kind, text in reply.take(chunk):
                        await shown.piece(reply.position(kind), kind, text)
                    if reply.is_endless:
                        break
            if reply.finish_reason is None and not reply.is_endless:
                raise self._endpoint.broken_off(asked.model, "it ended without a reason for its end")
            if not reply.is_cut_short or reply.has_calls or not reply.text or not left:
                break
            reply.go_on()
        await shown.end()
        return self._response(reply, asked)

    def _response(self, reply: Reply, asked: Asking) -> ChatResponse:
        if reply.finish_reason == "content_filter" and not reply.text and not reply.has_calls:
            raise ContentFilterError(
                "The service held back the whole answer. Put the question in other words, or leave out what it may "
                "object to.",
                provider=self.name,
                model=asked.model,
            )
        usage, prices = reply.usage(), self._catalogue.of(asked.model).prices
        cost = None if usage is None or prices is None else prices.cost(usage)
        if cost is not None:  # counted here, since `response` may raise for an answer that was paid for
            self._cost = (self._cost or Decimal(0)) + cost
        return reply.response(self.name, asked.model, cost)

    async def _tell_of_repair(self, asked: Asking, span: Mapping[str, Any]) -> None:
        """Announce repairs that were not announced before."""
        calls = [(id, tool) for id, tool in asked.repair.calls if id not in self._repaired]
        dropped = [id for id in asked.repair.dropped if id not in self._repaired]
        if not calls and not dropped:
            return
        if len(self._repaired) < _REMEMBERED_REPAIRS:
            self._repaired.update(dropped, (id for id, _ in calls))
        fields = {
            "repair_count": len(calls) + len(dropped),
            "repairs": [{"tool_call_id": id, "tool_name": tool} for id, tool in calls],
            "dropped_results": dropped,
        }
        await self._emit(events.PROVIDER_TOOL_SEQUENCE_REPAIRED, {**span, **fields})

    async def _tell_of_response(self, response: ChatResponse, span: Mapping[str, Any], seconds: float) -> None:
        fields = {
            "status": "ok",
            "duration_ms": round(seconds * 1000),
            "finish_reason": response.finish_reason,
            "response_model": (response.metadata or {}).get("model"),
            "usage": None if response.usage is None else response.usage.model_dump(mode="json"),
            "tool_calls": len(response.tool_calls or ()),
        }
        await self._emit(events.LLM_RESPONSE, {**span, **fields})

    async def _emit(self, event: str, data: dict[str, Any]) -> None:
        if self._hooks is not None:
            await self._hooks.emit(event, data)

    def _sizes(self, model: str) -> tuple[int, int]:
        known, settings = self._catalogue.of(model), self._settings
        window = settings.context_window or known.context_window or _CONTEXT_WINDOW
        return window, min(settings.max_output_tokens or known.max_output_tokens or _MAX_OUTPUT, window)

    def _capabilities(self) -> list[str]:
        common = [capabilities.TOOLS, capabilities.STREAMING, capabilities.JSON_MODE]
        return [*common, capabilities.VISION] if self._settings.is_openai else common
