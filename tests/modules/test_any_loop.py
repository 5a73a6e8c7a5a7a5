"""Every loop with every provider: ours, and stand-ins that do as published ones do.

Of the stand-ins, `loop-plain` does as loop-basic, `loop-current` as loop-streaming, and as loop-events where it is
silent; `provider-crier` does as providers that announce blocks (openai, vllm), chunks (ollama) or nothing
(chat-completions, mock).
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from amplifier_core.testing import MockCoordinator, MockTool, wait_for

from integration.community import COMMUNITY
from paddock.cli.chat.conversation_screen import ConversationScreen
from paddock.cli.chat.turn_view import TurnView
from vendors.anthropic_dialect import AnthropicDialect
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Script
from vendors.server import VendorServer

sys.path += [str(COMMUNITY / f"amplifier-module-{one}") for one in ("loop-current", "loop-plain", "provider-crier")]

_SECONDS = 60.0  # hit only by a hang
_LOOPS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "loop-basic": ("loop-basic", {}),
    "loop-streaming": ("loop-streaming", {}),
    "loop-events": ("loop-events", {"planning": False}),
    "as loop-basic": ("loop-plain", {}),
    "as loop-streaming": ("loop-current", {}),
    "as loop-events": ("loop-current", {"silent": True}),
}
_VENDORS: Mapping[str, Any] = {"provider-openai": OpenAIDialect, "provider-anthropic": AnthropicDialect}
_CRIERS = {"as openai and vllm": "blocks", "as ollama": "chunks", "as mock and chat-completions": "whole"}
_PROVIDERS = ("provider-mock", *_VENDORS, *_CRIERS)
_SHOWING = [one for one in _PROVIDERS if one != "as mock and chat-completions"]
_CALL = {"name": "look", "arguments": {"at": "it"}}
_FIRST, _ANSWER = "Let me look first.", "It says so, and more."


class _Screen(ConversationScreen):
    """Keeps the texts that a person reads, as they come."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str, *, is_thought: bool = False) -> None:
        self.said.append(text)

    def end_text(self) -> None:
        self.said.append("\n")

    def notice(self, text: str, *, is_warning: bool = False) -> None:
        self.said.append(text)

    def show_call(self, call: Any) -> None:
        """Show nothing."""


@dataclass
class Scene:
    """A loop, a provider and what is around them; a person looks on."""

    coordinator: MockCoordinator
    look: MockTool
    screen: _Screen = field(default_factory=_Screen)

    async def play(self, prompt: str) -> str:
        view = TurnView(self.screen, "test-session")
        unregister = [
            self.coordinator.hooks.register(event, self._shown_by(view), priority=2000) for event in view.events
        ]
        answer = None
        try:
            async with asyncio.timeout(_SECONDS):
                answer = await self.coordinator.get("orchestrator").execute(
                    prompt=prompt,
                    context=self.coordinator.get("context"),
                    providers=self.coordinator.get("providers"),
                    tools={"look": self.look},
                    hooks=self.coordinator.hooks,
                    coordinator=self.coordinator,
                )
        finally:
            view.end(answer)
            for forget in unregister:
                forget()
        return str(answer)

    def _shown_by(self, view: TurnView) -> Callable[[str, dict[str, Any]], None]:
        return lambda event, data: view.take(event, data, "a module")

    def is_asked(self, provider: str) -> bool:
        """Whether the provider is at work on its first answer, and has shown its first word if it can."""
        (mounted,) = self.coordinator.get("providers").values()
        if provider == "provider-mock":  # which waits before its first word
            return bool(mounted._script.used)
        return "half" in self.read if provider in _SHOWING else bool(mounted.asked)

    @property
    def read(self) -> str:
        """What a person has read, without white space."""
        return "".join("".join(self.screen.said).split())


async def _mounted(coordinator: MockCoordinator, module_id: str, config: dict[str, Any]) -> None:
    module = importlib.import_module(f"amplifier_module_{module_id.replace('-', '_')}")
    await module.mount(coordinator, config)


@asynccontextmanager
async def _scene(loop: str, provider: str, turns: list[dict[str, Any]]) -> AsyncIterator[Scene]:
    """Open a scene; a turn has a `text`, perhaps calls the tool, and perhaps hangs after its first word."""
    coordinator = MockCoordinator()
    async with AsyncExitStack() as closing:
        if provider in _VENDORS:
            played = [
                {
                    "text": turn["text"],
                    "tool_calls": [_CALL] if turn.get("call") else [],
                    "faults": [{"kind": "stall", "after": 4}] if turn.get("hang") else [],
                }
                for turn in turns
            ]
            dialect = _VENDORS[provider](frozenset())
            server = closing.enter_context(VendorServer(Script(played), dialect))
            config: dict[str, Any] = {"base_url": server.url, "default_model": "small", "api_key": "sk-1"}
        elif provider in _CRIERS:
            steps = [{**turn, "call": _CALL if turn.get("call") else None} for turn in turns]
            config = {"how": _CRIERS[provider], "steps": steps}
        else:
            responses = [
                {
                    "text": turn["text"],
                    "tool_calls": [_CALL] if turn.get("call") else [],
                    "delay": 3600 if turn.get("hang") else 0,
                }
                for turn in turns
            ]
            config = {"responses": responses, "deltas": True}
        await _mounted(coordinator, "context-simple", {})
        await _mounted(coordinator, "provider-crier" if provider in _CRIERS else provider, config)
        await _mounted(coordinator, *_LOOPS[loop])
        yield Scene(coordinator, MockTool("look", output="seen"))
        for one in coordinator.get("providers").values():
            if hasattr(one, "close"):
                await one.close()


@pytest.mark.exhaustive("provider-openai")
@pytest.mark.parametrize("provider", _PROVIDERS)
@pytest.mark.parametrize("loop", _LOOPS)
async def test_a_tool_is_called_and_the_answer_shown_once(loop: str, provider: str) -> None:
    turns = [{"text": _FIRST, "call": True}, {"text": _ANSWER}]
    async with _scene(loop, provider, turns) as scene:
        assert await scene.play("go") == _ANSWER
        assert (scene.look.call_count, scene.look.last_input) == (1, {"at": "it"})
        said = await scene.coordinator.get("context").get_messages()
    assert [one["role"] for one in said] == ["user", "assistant", "tool", "assistant"]
    assert scene.read.count("Itsaysso,andmore.") == 1 and scene.read.count("Letmelookfirst.") <= 1
    words = [one for one in scene.screen.said if one.strip() and one.strip() in _ANSWER.split()]
    assert (len(words) > 1) == (provider in _SHOWING)  # as they come


@pytest.mark.exhaustive("provider-openai")
@pytest.mark.parametrize("provider", _PROVIDERS)
@pytest.mark.parametrize("loop", _LOOPS)
async def test_a_cancelled_answer_leaves_a_conversation_that_goes_on(loop: str, provider: str) -> None:
    is_ours = loop == _LOOPS[loop][0]
    turns = [{"text": "half of it", "hang": True}, {"text": "half of it"}]
    async with _scene(loop, provider, turns) as scene:
        turn = asyncio.create_task(scene.play("go"))
        assert await wait_for(lambda: scene.is_asked(provider), _SECONDS)
        scene.coordinator.cancellation.request_immediate()
        if not is_ours:  # published loops see it when the provider has answered, and the session ends them before
            turn.cancel()
        with suppress(asyncio.CancelledError):
            await turn
        assert turn.done() and scene.read.count("half") <= 1
        kept = [one["content"] for one in await scene.coordinator.get("context").get_messages()][1:]
        scene.coordinator.cancellation.reset()
        assert await scene.play("again") == "half of it"
    was_kept = is_ours and provider in ("as openai and vllm", *_VENDORS)
    assert [bool(one) for one in kept] == ([True] if was_kept else []), kept
