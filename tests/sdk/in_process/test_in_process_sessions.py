"""Whole sessions in this very process, over modules on disk: the two classes, and what differs between them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import AmplifierSession
from amplifier_core.session import AmplifierSession as PlainAmplifierSession

from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.kernel import session as kernel
from paddock_sources.builtin import BuiltinSource
from sdk.in_process.conftest import TOOL, Resolver, WriteModule

_REFERENCE = ("loop-basic", "context-simple", "provider-mock", "tool-filesystem", "hooks-logging")
_LOOP = """
    class Loop:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            return (await tools["greet"].execute({"who": prompt})).output

    async def mount(coordinator, config=None):
        await coordinator.mount("orchestrator", Loop())
"""
_CONTEXT = """
    class Memory:
        def __init__(self): self.messages = []
        async def add_message(self, message): self.messages.append(message)
        async def get_messages(self): return list(self.messages)
        async def get_messages_for_request(self, token_budget=None, provider=None): return list(self.messages)
        async def set_messages(self, messages): self.messages = list(messages)
        async def clear(self): self.messages.clear()

    async def mount(coordinator, config=None):
        await coordinator.mount("context", Memory())
"""
_PLAN: dict[str, Any] = {"session": {"orchestrator": "loop-small", "context": "context-small"}}


@pytest.fixture
def resolver(write_module: WriteModule) -> Resolver:
    """The reference modules, and three small ones."""
    resolver = Resolver(
        loop_small=write_module("loop-small", _LOOP),
        context_small=write_module("context-small", _CONTEXT),
        tool_greet=write_module("tool-greet", TOOL),
    )
    resolver.folders.update({name: BuiltinSource().resolve(name).root for name in _REFERENCE})
    return resolver


@pytest.mark.parametrize("session_class", [AmplifierSession, PlainAmplifierSession])
async def test_a_turn_of_the_reference_modules_runs_from_prompt_to_answer(
    session_class: type[Any], resolver: Resolver, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text("remember the milk")
    script = [
        {"tool_calls": [{"name": "read_file", "arguments": {"file_path": "note.txt"}}]},
        "It says: {last_tool_result}",
    ]
    plan = {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"responses": script}}],
        "tools": [{"module": "tool-filesystem"}],
        "hooks": [{"module": "hooks-logging", "config": {"path": str(tmp_path / "log.jsonl")}}],
    }
    session = session_class(plan)
    failures: list[Any] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data))
    session.coordinator.register_capability("session.working_dir", str(tmp_path))
    session.coordinator.mount("module-source-resolver", resolver)
    async with session:
        answer = await session.execute("what does the note say?")
        roles = [message["role"] for message in await session.coordinator.get("context").get_messages()]
    assert "remember the milk" in answer
    assert failures == []
    assert roles == ["user", "assistant", "tool", "assistant"]
    logged = (tmp_path / "log.jsonl").read_text()
    assert '"tool:pre"' in logged and '"session:end"' in logged


async def test_a_session_makes_a_loader_and_removes_its_paths_at_the_end(resolver: Resolver) -> None:
    before = list(sys.path)
    session = AmplifierSession({**_PLAN, "tools": [{"module": "tool-greet", "config": {"word": "hi"}}]})
    session.coordinator.mount("module-source-resolver", resolver)
    assert session.coordinator.loader is None
    async with session:
        assert isinstance(session.coordinator.loader, ModuleLoader)
        assert sys.path != before
        assert await session.execute("Ada") == "hi, Ada"
    assert sys.path == before


@pytest.mark.parametrize("session_class", [AmplifierSession, PlainAmplifierSession])
async def test_a_loader_is_cleaned_up_once_also_after_a_cancelled_cleanup(
    session_class: type[Any], resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned: list[bool] = []
    monkeypatch.setattr(ModuleLoader, "cleanup", lambda loader: cleaned.append(True))
    session = session_class(_PLAN)
    session.coordinator.mount("module-source-resolver", resolver)
    await session.initialize()

    async def cancelled() -> None:
        raise asyncio.CancelledError

    session.coordinator.register_cleanup(cancelled)
    with suppress(asyncio.CancelledError):
        await session.cleanup()
    assert cleaned == [True]


async def test_a_session_that_fails_to_start_leaves_nothing_on_the_path(resolver: Resolver) -> None:
    before = list(sys.path)
    session = AmplifierSession({"session": {"orchestrator": "loop-small", "context": "context-nowhere"}})
    session.coordinator.mount("module-source-resolver", resolver)
    with pytest.raises(RuntimeError, match="Module 'context-nowhere' not found via entry points or filesystem"):
        async with session:
            pass
    assert sys.path == before


async def test_a_tool_that_fails_its_checks_is_reported_and_left_out(
    resolver: Resolver, write_module: WriteModule
) -> None:
    resolver.folders["tool-empty"] = write_module("tool-empty", "async def mount(coordinator, config): ...")
    session = AmplifierSession({**_PLAN, "tools": [{"module": "tool-empty"}, {"module": "tool-greet"}]})
    failures: list[Any] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data))
    session.coordinator.mount("module-source-resolver", resolver)
    async with session:
        assert await session.execute("Ada") == "hello, Ada"
    assert [(one["module_id"], one["reason_code"]) for one in failures] == [("tool-empty", "validation_failed")]


async def test_modules_are_told_when_everything_is_mounted(resolver: Resolver, write_module: WriteModule) -> None:
    ready = (
        TOOL
        + """
    async def on_session_ready(coordinator):
        coordinator.seen = [sorted(coordinator.get("tools")), coordinator.get("context") is not None]
"""
    )
    resolver.folders["tool-ready"] = write_module("tool-ready", ready.replace('"greet"', '"ready"'))
    session = AmplifierSession({**_PLAN, "tools": [{"module": "tool-ready"}, {"module": "tool-greet"}]})
    session.coordinator.mount("module-source-resolver", resolver)
    async with session:
        assert session.coordinator.seen == [["greet", "ready"], True]  # type: ignore[attr-defined]


async def test_a_session_can_be_started_again_after_its_end(resolver: Resolver) -> None:
    session = AmplifierSession({**_PLAN, "tools": [{"module": "tool-greet"}]})
    session.coordinator.mount("module-source-resolver", resolver)
    for _ in range(2):
        async with session:
            assert await session.execute("Ada") == "hello, Ada"


# What differs between the two classes.


def test_one_class_ignores_a_loader_and_the_other_takes_it(caplog: pytest.LogCaptureFixture) -> None:
    loader = ModuleLoader()
    assert AmplifierSession(_PLAN, loader).coordinator.loader is None
    assert "ignored" in caplog.text
    plain = PlainAmplifierSession(_PLAN, loader)
    assert plain.loader is loader and plain.coordinator.loader is None
    assert isinstance(PlainAmplifierSession(_PLAN).loader, ModuleLoader)


def test_both_are_the_kernel_s_sessions() -> None:
    assert issubclass(AmplifierSession, kernel.AmplifierSession)
    assert issubclass(PlainAmplifierSession, kernel.PlainAmplifierSession)
    assert AmplifierSession is not PlainAmplifierSession
    assert not hasattr(AmplifierSession(_PLAN), "status") and not hasattr(AmplifierSession(_PLAN), "loader")
