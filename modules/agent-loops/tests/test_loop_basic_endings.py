"""The basic loop when something goes wrong: failing tools and providers, the limit, cancellation at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest
from agent_loop import interruption
from amplifier_core.llm_errors import ProviderUnavailableError, RateLimitError
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
)
from amplifier_core.models import ToolResult
from amplifier_core.testing import MockTool
from loop_basic_stage import Stage, waiting_tool
from loop_stage import calls

pytestmark = pytest.mark.anyio


# --- tools that go wrong


async def test_an_unknown_tool_is_an_error_the_model_can_act_on() -> None:
    stage = Stage(calls("loko"), "done", tools=[MockTool("look")])
    stage.record("tool:error", "tool:pre")
    assert await stage.play() == "done"
    assert "no tool named `loko`" in stage.tool_messages[0]["content"]
    assert "look" in stage.tool_messages[0]["content"]
    assert [name for name, _ in stage.events] == ["tool:error"]


async def test_a_tools_exception_reaches_hooks_and_model_alone() -> None:
    broken, fine = MockTool("broken"), MockTool("fine", output="ok")
    broken.execute.side_effect = KeyError("missing")
    stage = Stage(calls("broken", "fine"), "done", tools=[broken, fine])
    stage.record("tool:error", "tool:post")

    assert await stage.play() == "done"

    assert [message["content"] for message in stage.tool_messages] == ["Error: KeyError: 'missing'", "ok"]
    (error,) = stage.emitted("tool:error")
    assert (error["tool_name"], error["error"]) == ("broken", {"type": "KeyError", "msg": "'missing'"})
    assert [data["tool_name"] for data in stage.emitted("tool:post")] == ["fine"]
    stage.assert_whole()


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        (ToolResult(success=False, error={"message": "no such file"}), "no such file"),
        ({"plain": True}, '{"plain": true}'),
        (ToolResult(output={"value": float("nan")}), "Error: "),
        (ToolResult(output={"value": {"bad": object()}}), "Error: "),
    ],
    ids=["failed", "plain", "nan", "object"],
)
async def test_what_a_tool_returns_is_told_and_fails_no_more_than_its_call(returned: Any, content: str) -> None:
    tool = MockTool("look")
    tool.execute.side_effect = None
    tool.execute.return_value = returned
    stage = Stage(calls("look"), "done", tools=[tool])
    stage.record("tool:post", "tool:error")
    assert await stage.play() == "done"
    (told,) = stage.tool_messages
    failed = content == "Error: "
    assert told["content"].startswith(content) if failed else told["content"] == content
    assert failed or [name for name, _ in stage.events] == ["tool:post"]


async def test_a_tool_that_cancels_itself_does_not_end_the_turn() -> None:
    tool = MockTool("look")
    tool.execute.side_effect = asyncio.CancelledError
    stage = Stage(calls("look"), "done", tools=[tool])
    assert await stage.play() == "done"
    assert "cancelled" in stage.tool_messages[0]["content"]


# --- providers and contexts that go wrong


@pytest.mark.parametrize(
    ("error", "retryable", "status"),
    [
        (RateLimitError("slow down", status_code=429), True, 429),
        (ProviderUnavailableError("down", retryable=False), False, None),
        (TimeoutError("late"), False, None),
    ],
)
async def test_a_provider_error_is_told_and_raised(error: Exception, retryable: bool, status: int | None) -> None:
    stage = Stage(error)
    stage.record("provider:error", "orchestrator:complete")
    with pytest.raises(type(error)) as caught:
        await stage.play()
    assert caught.value is error
    (seen,) = stage.emitted("provider:error")
    assert seen["provider"] == "test"
    assert seen["error"] == {"type": type(error).__name__, "msg": str(error)}
    assert (seen["retryable"], seen["status_code"]) == (retryable, status)
    assert stage.emitted("orchestrator:complete")[0]["status"] == "error"


@pytest.mark.parametrize("deaths", [2, 3])
async def test_a_provider_that_died_is_asked_again_twice(deaths: int) -> None:
    died = ProviderUnavailableError("it died", retryable=True, retry_after=0.0)
    stage = Stage(*[died] * deaths, "recovered")
    stage.record("provider:error", "orchestrator:complete")
    with pytest.raises(ProviderUnavailableError) if deaths == 3 else contextlib.nullcontext():
        assert await stage.play() == "recovered"
    assert len(stage.emitted("provider:error")) == deaths
    assert stage.emitted("orchestrator:complete")[0]["status"] == ("error" if deaths == 3 else "success")


async def test_the_turn_after_a_provider_error_goes_on_with_the_conversation() -> None:
    stage = Stage(calls("look"), RateLimitError("slow"), "recovered", tools=[MockTool("look")])
    with pytest.raises(RateLimitError):
        await stage.play("one")
    assert await stage.play("two") == "recovered"
    stage.assert_whole()
    assert stage.roles == ["user", "assistant", "tool", "user", "assistant"]


@pytest.mark.parametrize(
    ("fails_at", "roles"), [(3, ["user", "assistant", "tool", "tool"]), (2, ["user"])], ids=["an answer", "the reply"]
)
async def test_a_context_that_fails_leaves_no_call_open(fails_at: int, roles: list[str]) -> None:
    stage = Stage(calls("a", "b"), tools=[MockTool("a"), MockTool("b")])
    numbers = itertools.count(1)

    async def add(message: dict[str, Any]) -> None:
        if next(numbers) == fails_at:
            raise OSError("disk full")
        stage.context.messages.append(message)

    stage.context.add_message.side_effect = add
    with pytest.raises(OSError, match="disk full"):
        await stage.play()
    stage.assert_whole()
    assert stage.roles == roles and {one["content"] for one in stage.tool_messages} <= {"Success"}


# --- the limit


async def test_at_the_limit_the_model_is_asked_once_more_without_tools() -> None:
    stage = Stage(calls("look"), calls("look"), "what I have", tools=[MockTool("look")], max_iterations=2)
    stage.record("provider:request", "orchestrator:complete")

    assert await stage.play() == "what I have"

    last = stage.provider.requests[-1]
    assert last.tools is None
    assert "limit" in last.messages[-1].content
    assert [data.get("max_reached") for data in stage.emitted("provider:request")] == [None, None, True]
    assert stage.emitted("orchestrator:complete")[0]["status"] == "incomplete"
    assert all("limit" not in str(message["content"]) for message in stage.context.messages)


async def test_calls_after_the_limit_are_not_run_and_leave_nothing_open() -> None:
    tool = MockTool("look")
    stage = Stage(calls("look"), calls("look"), tools=[tool], max_iterations=1)
    assert "limit of 1 requests" in await stage.play()
    assert tool.call_count == 1
    stage.assert_whole()


async def test_minus_one_removes_the_limit() -> None:
    stage = Stage(*[calls("look")] * 60, "done", tools=[MockTool("look")], max_iterations=-1)
    assert await stage.play() == "done"
    assert len(stage.provider.requests) == 61


# --- cancellation


async def test_a_graceful_cancel_lets_running_tools_finish_and_asks_no_more() -> None:
    started, gate = asyncio.Event(), asyncio.Event()
    stage = Stage(calls("slow", text="working"), tools=[waiting_tool("slow", started, gate)])
    stage.record("cancel:requested", "cancel:completed", "orchestrator:complete")
    called: list[str] = []
    stage.coordinator.cancellation.on_cancel(lambda: called.append("callback"))
    turn = await stage.begun(started)
    assert stage.coordinator.cancellation.running_tools == {"id-0"}

    stage.coordinator.cancellation.request_graceful()
    await asyncio.sleep(2 * interruption.POLL_INTERVAL)
    assert not turn.done()
    gate.set()

    assert await turn == "working"
    assert [message["content"] for message in stage.tool_messages] == ["finished"]
    assert stage.coordinator.cancellation.running_tools == set()
    assert called == ["callback"]
    assert [name for name, _ in stage.events] == ["cancel:requested", "cancel:completed", "orchestrator:complete"]
    (requested,), (completed,) = stage.emitted("cancel:requested"), stage.emitted("cancel:completed")
    assert (requested["orchestrator"], requested["state"], requested["turn_count"]) == ("loop-basic", "graceful", 1)
    assert completed["was_immediate"] is False
    assert stage.emitted("orchestrator:complete")[0]["status"] == "cancelled"


async def test_an_immediate_cancel_stops_running_tools_and_answers_for_them() -> None:
    stopped: list[str] = []
    started = asyncio.Event()
    stuck = waiting_tool("stuck", started, stopped=stopped)
    stage = Stage(calls("quick", "stuck"), tools=[MockTool("quick", output="fast"), stuck])
    stage.record("cancel:completed")
    turn = await stage.begun(started)

    stage.coordinator.cancellation.request_immediate()

    assert await turn == ""
    contents = [message["content"] for message in stage.tool_messages]
    assert contents == ["fast", "Error: the tool call was cancelled."]
    assert stopped == ["stuck"]
    assert stage.emitted("cancel:completed")[0]["was_immediate"] is True
    stage.assert_whole()


async def test_an_immediate_cancel_stops_the_request_to_the_model() -> None:
    asked = asyncio.Event()

    async def never(_: ChatRequest) -> Any:
        asked.set()
        await asyncio.Event().wait()

    stage = Stage(never)
    turn = await stage.begun(asked)
    stage.coordinator.cancellation.request_immediate()
    assert await turn == ""
    assert stage.roles == ["user"]


async def test_a_graceful_cancel_takes_the_answer_and_starts_no_tool() -> None:
    tool = MockTool("look")
    stage = Stage(tools=[tool])

    async def cancelled_meanwhile(_: ChatRequest) -> ChatResponse:
        stage.coordinator.cancellation.request_graceful()
        return calls("look", text="I would look")

    stage.provider.answers.append(cancelled_meanwhile)
    assert await stage.play() == "I would look"
    assert tool.call_count == 0
    assert "before it started" in stage.tool_messages[0]["content"]
    stage.assert_whole()


async def test_a_turn_that_starts_cancelled_asks_nothing() -> None:
    stage = Stage()
    stage.coordinator.cancellation.request_graceful()
    assert await stage.play() == ""
    assert stage.provider.requests == []


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interruption, "GRACE", 0.05)
    started, release = asyncio.Event(), asyncio.Event()
    tool = MockTool("stubborn")

    async def execute(_: dict[str, Any]) -> ToolResult:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult(output="at last")

    tool.execute = execute
    stage = Stage(calls("stubborn"), tools=[tool])
    turn = await stage.begun(started)
    stage.coordinator.cancellation.request_immediate()

    assert await turn == ""
    release.set()
    stage.assert_whole()


async def test_a_cancelled_task_answers_open_calls_before_it_goes() -> None:
    started = asyncio.Event()
    stage = Stage(
        calls("quick", "stuck", "also"),
        tools=[MockTool("quick", output="fast"), waiting_tool("stuck", started), waiting_tool("also", asyncio.Event())],
    )
    stage.record("orchestrator:complete")
    turn = await stage.begun(started)
    if quick := [task for task in asyncio.all_tasks() if task.get_name() == "tool quick"]:
        await asyncio.wait(quick)

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert [message["content"] for message in stage.tool_messages] == [
        "fast",
        "Error: the tool call was cancelled.",
        "Error: the tool call was cancelled.",
    ]
    stage.assert_whole()
    assert stage.emitted("orchestrator:complete")[0]["status"] == "cancelled"


@pytest.mark.parametrize("step", range(40))
async def test_cancelled_at_any_step_the_conversation_stays_whole(step: int) -> None:
    """Cancel the turn after so many passes of the loop, with a context whose every write takes some of them."""
    stage = Stage(calls("a", "b"), calls("a"), "done", tools=[MockTool("a"), MockTool("b")])

    async def add(message: dict[str, Any]) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        stage.context.messages.append(message)
        await asyncio.sleep(0)

    stage.context.add_message.side_effect = add
    turn = asyncio.create_task(stage.play())
    for _ in range(step):
        await asyncio.sleep(0)
    turn.cancel()
    await asyncio.wait([turn])

    assert turn.cancelled() or turn.result() == "done"
    stage.assert_whole()


async def test_repeated_cancellation_does_not_leave_calls_open() -> None:
    started = asyncio.Event()
    stage = Stage(calls("stuck"), tools=[waiting_tool("stuck", started)])

    async def add(message: dict[str, Any]) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        stage.context.messages.append(message)

    stage.context.add_message.side_effect = add
    turn = await stage.begun(started)
    while not turn.done():
        turn.cancel()
        await asyncio.sleep(0)

    assert turn.cancelled()
    stage.assert_whole()
    assert len(stage.tool_messages) == 1


async def test_a_cancellation_during_the_last_steps_is_raised_after_them() -> None:
    done: list[str] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def steps() -> None:
        begun.set()
        await gate.wait()
        done.append("steps")

    last = asyncio.create_task(interruption.finish(steps()))
    await begun.wait()
    last.cancel()
    await asyncio.sleep(0)
    assert not last.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await last
    assert done == ["steps"]
