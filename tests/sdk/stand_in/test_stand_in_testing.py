"""The test helpers, imported the way a module's own tests import them."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import anyio
import pytest
from amplifier_core import testing
from amplifier_core.coordinator import ModuleCoordinator
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockTool,
    ScriptedOrchestrator,
    create_test_coordinator,
    wait_for,
)


def test_a_mock_coordinator_is_a_real_one_of_a_made_up_session() -> None:
    coordinator = MockCoordinator()
    assert isinstance(coordinator, ModuleCoordinator)
    assert coordinator.session_id == "test-session"
    assert coordinator.parent_id is None
    assert coordinator.config == {"session": {"orchestrator": "test-orchestrator", "context": "test-context"}}
    assert isinstance(coordinator.approval_system, AsyncMock)
    assert isinstance(coordinator.display_system, AsyncMock)
    assert (coordinator.mount_history, coordinator.unmount_history) == ([], [])


def test_two_mock_coordinators_share_nothing() -> None:
    first, second = MockCoordinator(), MockCoordinator()
    first.config["session"]["orchestrator"] = "changed"
    assert second.config["session"]["orchestrator"] == "test-orchestrator"
    assert first.mount_history is not second.mount_history


async def test_a_mock_coordinator_records_what_is_mounted_and_unmounted() -> None:
    coordinator, tool, context = MockCoordinator(), MockTool("t"), MockContextManager()
    await coordinator.mount("tools", tool, name="other")
    await coordinator.mount("tools", tool)
    await coordinator.mount("context", context)
    await coordinator.unmount("tools", "other")
    assert coordinator.mount_history == [
        {"mount_point": "tools", "module": tool, "name": "other"},
        {"mount_point": "tools", "module": tool, "name": None},
        {"mount_point": "context", "module": context, "name": None},
    ]
    assert coordinator.unmount_history == [{"mount_point": "tools", "name": "other"}]
    assert coordinator.get("tools") == {"t": tool}
    assert coordinator.get("context") is context


def test_a_mount_counts_as_soon_as_it_is_called() -> None:
    coordinator = MockCoordinator()
    coordinator.mount("tools", MockTool("t"))
    assert list(coordinator.get("tools")) == ["t"]
    assert [entry["mount_point"] for entry in coordinator.mount_history] == ["tools"]


def test_a_refused_mount_is_not_recorded() -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match="nowhere"):
        coordinator.mount("nowhere", MockTool())
    assert coordinator.mount_history == []


@pytest.mark.difference("`to_dict()` of a mock coordinator says that it has an approval and a display system")
def test_a_mock_coordinator_says_what_systems_it_has() -> None:
    shown = MockCoordinator().to_dict()
    assert shown["has_approval_provider"] and shown["has_display_service"]


async def test_a_message_through_a_mock_coordinator_is_awaited() -> None:
    coordinator = MockCoordinator()
    await coordinator.process_hook_result(HookResult(action="deny", user_message="no"), "tool:pre", "guard")
    coordinator.display_system.show_message.assert_called_once_with("no", "info", "hook:guard")


def test_the_older_names_of_the_coordinator_work() -> None:
    assert testing.TestCoordinator is MockCoordinator
    assert MockCoordinator.__test__ is False
    coordinator = testing.TestCoordinator()
    assert coordinator.get_mounted("tools") == {}
    assert coordinator.get_mounted("context") == {}
    coordinator.mount("tools", MockTool("t"))
    assert "t" in coordinator.get_mounted("tools")


async def test_a_mock_tool_answers_its_output_and_counts() -> None:
    tool = MockTool()
    assert (tool.name, tool.output, tool.call_count, tool.last_input) == ("mock_tool", "Success", 0, None)
    assert tool.description
    assert tool.input_schema["type"] == "object"
    assert tool.get_schema() is tool.input_schema
    assert await tool.execute({"a": 1}) == ToolResult(success=True, output="Success")
    tool.output = {"changed": True}
    assert (await tool.execute({"b": 2})).output == {"changed": True}
    assert (tool.call_count, tool.last_input) == (2, {"b": 2})
    tool.execute.assert_awaited_with({"b": 2})
    assert asyncio.iscoroutinefunction(tool.execute)


@pytest.mark.parametrize(
    "tool",
    [
        MockTool("t", "out", description="d"),
        MockTool(name="t", description="d", return_value="out"),
        MockTool(name="t", output="out", description="d"),
    ],
)
@pytest.mark.difference("some names exist that the published package no longer has")
async def test_a_mock_tool_is_made_with_either_spelling(tool: MockTool) -> None:
    assert (tool.name, tool.description) == ("t", "d")
    assert (await tool.execute({})).output == "out"


async def test_a_mock_context_keeps_messages_in_a_list() -> None:
    kept = [{"role": "user", "content": "hi"}]
    context = MockContextManager(kept)
    await context.add_message({"role": "assistant", "content": "ho"})
    assert context.messages is kept
    assert [message["content"] for message in kept] == ["hi", "ho"]
    assert await context.get_messages() is kept
    sent = await context.get_messages_for_request(token_budget=5, provider=object())
    assert sent == kept
    assert sent is not kept


async def test_a_mock_context_never_compacts_or_forgets() -> None:
    context = MockContextManager([{"role": "user", "content": "hi"}])
    await context.clear()
    assert await context._should_compact() is False
    await context._compact_internal()
    assert context.messages == [{"role": "user", "content": "hi"}]
    assert not hasattr(context, "set_messages")
    assert MockContextManager().messages == []


async def test_a_recorder_keeps_what_was_emitted_as_it_was_then() -> None:
    recorder, data = EventRecorder(), {"tool_name": "Write"}
    assert await recorder.emit("tool:pre", data) == HookResult(action="continue")
    data["tool_name"] = "changed"
    await recorder.record("tool:post", {"x": 1})
    await recorder.emit("tool:pre", None)
    assert recorder.events == [("tool:pre", {"tool_name": "Write"}), ("tool:post", {"x": 1}), ("tool:pre", None)]
    assert recorder.get_events("tool:post") == [("tool:post", {"x": 1})]
    assert recorder.get_events() == recorder.events
    recorder.get_events().clear()
    assert len(recorder.events) == 3
    recorder.clear()
    assert recorder.events == []


async def test_a_scripted_orchestrator_reads_its_answers_in_turn() -> None:
    orchestrator, context, hooks = ScriptedOrchestrator(["one", "two"]), MockContextManager(), EventRecorder()
    answers = [
        await orchestrator.execute(prompt, context, {}, {}, hooks, coordinator=None) for prompt in ("a", "b", "c", "d")
    ]
    assert answers == ["one", "two", "DONE", "DONE"]
    assert context.messages[:2] == [{"role": "user", "content": "a"}, {"role": "assistant", "content": "one"}]
    assert len(context.messages) == 8
    assert [event for event, _ in hooks.events] == ["session:start", "session:end"] * 4


async def test_the_prepared_coordinator_has_two_tools_and_a_context() -> None:
    coordinator = create_test_coordinator()
    tools: dict[str, Any] = coordinator.get("tools")
    assert list(tools) == ["echo", "fail"]
    assert (await tools["echo"].execute({"say": "hi"})).output == {"say": "hi"}
    failed = await tools["fail"].execute({})
    assert (failed.success, failed.output) == (False, failed.error["message"])
    assert (tools["echo"].call_count, tools["fail"].call_count) == (1, 1)
    assert isinstance(coordinator.get("context"), MockContextManager)
    assert coordinator.mount_history == []


async def test_waiting_ends_when_the_condition_holds() -> None:
    flags: list[bool] = []
    asyncio.get_running_loop().call_later(0.02, flags.append, True)
    with anyio.fail_after(60):
        assert await wait_for(lambda: bool(flags), timeout=50) is True


async def test_waiting_ends_without_the_condition_when_time_is_up() -> None:
    with anyio.fail_after(60):
        assert await wait_for(lambda: False, timeout=0.03) is False


async def test_a_condition_that_holds_at_once_is_not_waited_for() -> None:
    with anyio.fail_after(60):
        assert await wait_for(lambda: True, timeout=0) is True
