"""Names and shapes of the contract's first edition that the published kernel has no more."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_sdk.contract.message_models import ToolCall
from paddock_sdk.contract.models import ToolResult
from paddock_sdk.kernel.hooks import HookRegistry
from paddock_sdk.testing import EventRecorder, MockCoordinator, MockTool, TestCoordinator, create_test_coordinator
from support.rows import each_row


@pytest.mark.difference("the `arguments` of a tool call can also be read as `input`")
def test_the_arguments_of_a_call_are_its_input() -> None:
    call = ToolCall(id="1", name="read", arguments={"path": "a"})
    assert call.input is call.arguments
    assert "input" not in call.model_dump()
    for missing in ("inputs", "is_error", "output"):
        with pytest.raises(AttributeError, match=missing):
            getattr(call, missing)


def test_an_input_that_a_provider_sets_itself_is_kept() -> None:
    call = ToolCall(id="1", name="read", arguments={"path": "a"}, input="raw")  # type: ignore[call-arg]
    assert (call.input, call.arguments) == ("raw", {"path": "a"})
    call.input = "other"
    assert (call.input, call.model_dump()["input"]) == ("other", "other")


def test_a_call_that_is_not_made_yet_has_no_input() -> None:
    assert not hasattr(ToolCall.model_construct(id="1", name="read"), "input")


@pytest.mark.parametrize(
    ("given", "success"),
    [
        ({"is_error": True}, False),
        ({"is_error": False}, True),
        ({"is_error": True, "success": True}, True),
        ({"is_error": True, "success": False}, False),
    ],
)
@pytest.mark.difference("a tool result made with `is_error=True` is a failure")
def test_a_result_that_says_it_is_an_error_is_a_failure(given: dict[str, Any], success: bool) -> None:
    result = ToolResult(output="refused", **given)
    assert (result.success, result.output) == (success, "refused")
    assert ToolResult.model_validate({"output": "refused", **given}) == result
    assert set(result.model_dump()) == {"success", "output", "error"}
    assert not hasattr(result, "is_error")


@each_row("point", ["orchestrator", "context"])
async def test_the_parts_of_a_session_are_mounted_by_name(point: str) -> None:
    coordinator, part = TestCoordinator(), object()
    await coordinator.mount("session", part, name=point)
    assert coordinator.get(point) is part
    assert coordinator.get_mounted(point) is part


async def test_a_handler_is_registered_by_keywords_and_leaves_by_what_it_got() -> None:
    registry, seen = HookRegistry(), []

    async def note(event: str, data: dict[str, Any]) -> None:
        seen.append((event, data["tool_name"]))

    leave = registry.register(event="tool:post", handler=note, priority=10, name="note")
    await registry.emit("tool:post", {"tool_name": "read"})
    leave()
    await registry.emit("tool:post", {"tool_name": "read"})
    assert seen == [("tool:post", "read")]


async def test_events_are_announced_on_their_channel() -> None:
    coordinator = MockCoordinator()
    coordinator.register_contributor("observability.events", "mine", lambda: ["mine:begun", "mine:done"])
    assert await coordinator.collect_contributions("observability.events") == [["mine:begun", "mine:done"]]


async def test_the_helpers_for_tests_take_and_show_what_they_did() -> None:
    tool, recorder = MockTool(name="look", description="looks", return_value="seen"), EventRecorder()
    result = await tool.execute({"where": "here"})
    await recorder.record("tool:pre", {"tool_name": "look"})
    assert (result.output, tool.call_count, tool.last_input) == ("seen", 1, {"where": "here"})
    assert recorder.get_events()[0][0] == "tool:pre"
    assert {"echo", "fail"} <= set(create_test_coordinator().get_mounted("tools"))
