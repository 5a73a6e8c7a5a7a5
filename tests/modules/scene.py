"""A provider in process, before a server that speaks as its vendor does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import amplifier_module_provider_anthropic as anthropic
import amplifier_module_provider_openai as openai
from amplifier_core.models import HookResult
from amplifier_core.testing import EventRecorder

from vendors.anthropic_dialect import AnthropicDialect
from vendors.dialect import Dialect
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Script
from vendors.server import VendorServer


class Closable(Protocol):
    async def close(self) -> None: ...


class Recorder(EventRecorder):
    """Records events, and notes the first piece of an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.has_shown = asyncio.Event()

    async def emit(self, event: str, data: Any) -> HookResult:
        if event == "llm:stream_block_delta":
            self.has_shown.set()
        return await super().emit(event, data)


P = TypeVar("P", bound=Closable)
Sleep = Callable[[float], Awaitable[None]]


@dataclass
class Scene(Generic[P]):
    """A provider, the server that it asks, the events that it emits, and the waits that it would have made."""

    provider: P
    server: VendorServer
    events: Recorder
    slept: list[float]

    def told(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events.events if name == event]

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The pieces of answers, each with the type of its block."""
        return [(data["block_type"], data["text"]) for data in self.told("llm:stream_block_delta")]

    async def until_shown(self) -> None:
        """Wait for the first piece of an answer."""
        await self.events.has_shown.wait()

    @property
    def sent(self) -> list[Any]:
        return [one.body for one in self.server.answers]


@asynccontextmanager
async def scenes(
    dialect: Callable[[frozenset[str]], Dialect],
    provider: Callable[[dict[str, Any], dict[str, str], EventRecorder, Sleep], P],
) -> AsyncIterator[Callable[..., Scene[P]]]:
    """Open scenes that end with this: `scene(turns, config, environ, **script)`."""
    async with AsyncExitStack() as closing:

        def begin(
            turns: list[Any],
            config: dict[str, Any] | None = None,
            environ: dict[str, str] | None = None,
            **script: Any,
        ) -> Scene[P]:
            played = Script(turns, **script)
            server = closing.enter_context(VendorServer(played, dialect(played.quirks)))
            written = {"base_url": server.url, "default_model": "small", **(config or {})}
            events = Recorder()
            slept: list[float] = []

            async def sleep(seconds: float) -> None:
                slept.append(seconds)

            made = provider(written, environ or {}, events, sleep)
            closing.push_async_callback(made.close)
            return Scene(made, server, events, slept)

        yield begin


def openai_provider(
    config: dict[str, Any], environ: dict[str, str], events: EventRecorder, sleep: Sleep
) -> openai.OpenAIProvider:
    settings = openai.Settings.of(config, environ)
    return openai.OpenAIProvider(settings, openai.Endpoint(settings), events, sleep=sleep, chance=lambda: 1.0)


def anthropic_provider(
    config: dict[str, Any], environ: dict[str, str], events: EventRecorder, sleep: Sleep
) -> anthropic.AnthropicProvider:
    settings = anthropic.Settings.of({"api_key": "sk-1", **config}, environ)
    return anthropic.AnthropicProvider(settings, events, sleep=sleep, chance=lambda: 1.0)


VENDORS: Mapping[str, Any] = {
    "openai": (OpenAIDialect, openai_provider),
    "anthropic": (AnthropicDialect, anthropic_provider),
}
