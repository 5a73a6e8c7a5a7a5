"""The event-driven loop: how a prompt is planned, and how hooks choose the tools."""

from __future__ import annotations

from typing import Any

import pytest
from amplifier_core.message_models import ChatResponse, TextBlock
from amplifier_core.models import HookResult
from amplifier_core.testing import MockTool
from loop_events_stage import Stage
from loop_stage import calls

pytestmark = pytest.mark.anyio


def modify(**changes: Any) -> Any:
    return lambda data: HookResult(action="modify", data={**data, **changes})


def deny(reason: str) -> Any:
    return lambda _: HookResult(action="deny", reason=reason)


# --- planning


async def test_a_plan_is_made_first_and_goes_along_with_every_request() -> None:
    stage = Stage("1. look", calls("look"), "done", tools=[MockTool("look", output="seen")])
    stage.record("plan:start", "plan:end", "provider:request", "message.end")
    assert await stage.play("find it") == "done"

    planning, first, second = stage.provider.requests
    assert planning.tools is None
    assert "look" in planning.messages[-1].content
    assert all("1. look" in request.messages[-1].content for request in (first, second))
    assert all("1. look" not in str(message["content"]) for message in stage.context.messages)
    (start,), (end,) = stage.emitted("plan:start"), stage.emitted("plan:end")
    assert (start["prompt"], start["tools"]) == ("find it", ["look"])
    assert (end["plan"], end["source"]) == ("1. look", "model")
    names = [name for name, _ in stage.events]
    assert names == ["plan:start", "provider:request", "plan:end", *["provider:request"] * 2, "message.end"]


async def test_planning_is_a_span_of_the_turn_and_its_request_one_below() -> None:
    stage = Stage("1. look", "done", tools=[MockTool("look")])
    stage.record("plan:start", "plan:end", "provider:request", "message.end")
    await stage.play()
    root = stage.emitted("message.end")[0]["span_id"]
    start, end = stage.emitted("plan:start")[0], stage.emitted("plan:end")[0]
    planning, answering = stage.emitted("provider:request")
    assert start["parent_span_id"] == answering["parent_span_id"] == root
    assert start["span_id"] == end["span_id"] == planning["parent_span_id"]
    assert (planning["purpose"], answering["iteration"]) == ("plan", 1)
    assert "iteration" not in planning


@pytest.mark.parametrize(
    ("answer", "plan", "source"),
    [(modify(plan="1. ask a friend"), "1. ask a friend", "hook"), (deny("no time"), "", None)],
)
async def test_a_hook_may_give_the_plan_or_refuse_planning(answer: Any, plan: str, source: str | None) -> None:
    stage = Stage("done", tools=[MockTool("look")])
    stage.hook("plan:start", answer)
    stage.record("plan:end")
    assert await stage.play() == "done"
    (end,) = stage.emitted("plan:end")
    assert (end["plan"], end["source"]) == (plan, source)
    assert plan in stage.provider.requests[0].messages[-1].content


async def test_a_hook_may_change_the_plan() -> None:
    stage = Stage("1. look", "done", tools=[MockTool("look")])
    stage.hook("plan:end", modify(plan="1. look twice"))
    await stage.play()
    assert "1. look twice" in stage.provider.requests[1].messages[-1].content


async def test_a_refused_plan_ends_the_turn_with_the_reason() -> None:
    stage = Stage("1. wreck", tools=[MockTool("look")])
    stage.hook("plan:end", deny("too bold"))
    stage.record("message.end")
    assert await stage.play() == "Denied: too bold"
    assert stage.emitted("message.end")[0]["status"] == "denied"


@pytest.mark.parametrize(("answer", "result"), [("Allow", "done"), ("Deny", "Denied: User denied: all right?")])
async def test_a_person_may_be_asked_about_the_plan(answer: str, result: str) -> None:
    stage = Stage("1. look", "done", tools=[MockTool("look")])
    stage.coordinator.approval_system.request_approval.return_value = answer
    stage.hook("plan:end", lambda _: HookResult(action="ask_user", approval_prompt="all right?"))
    assert await stage.play() == result


async def test_without_planning_only_hooks_plan() -> None:
    stage = Stage("done", tools=[MockTool("look")], planning=False)
    stage.record("plan:start", "plan:end")
    assert await stage.play() == "done"
    assert [name for name, _ in stage.events] == ["plan:start", "plan:end"]
    assert len(stage.provider.requests) == 1


async def test_a_turn_without_tools_is_not_planned() -> None:
    stage = Stage("done")
    stage.record("plan:start")
    assert await stage.play() == "done"
    assert stage.events == []


async def test_a_turn_that_is_cancelled_while_it_is_planned_asks_no_more() -> None:
    async def cancelled_meanwhile(_: Any) -> ChatResponse:
        stage.coordinator.cancellation.request_graceful()
        return ChatResponse(content=[TextBlock(text="1. look")])

    stage = Stage(cancelled_meanwhile, tools=[MockTool("look")])
    stage.record("plan:end", "message.end")
    assert await stage.play() == ""
    assert [(name, data.get("status")) for name, data in stage.events] == [("message.end", "cancelled")]


# --- choosing tools


async def test_a_hook_narrows_the_tools_that_are_offered() -> None:
    stage = Stage("plan", calls("write"), "done", tools=[MockTool("look"), MockTool("write"), MockTool("run")])
    stage.hook("decision:tool_resolution", modify(tools=["run", "look", "absent"]))
    assert await stage.play() == "done"
    assert stage.offered(1) == stage.offered(2) == ["look", "run"]
    assert "no tool named `write`" in stage.tool_results[0]
    assert stage.tools["write"].call_count == 0


async def test_a_hook_may_leave_no_tool() -> None:
    stage = Stage("plan", "done", tools=[MockTool("look")])
    stage.hook("decision:tool_resolution", deny("think only"))
    assert await stage.play() == "done"
    assert stage.offered(1) == []


@pytest.mark.parametrize("key", ["tool", "tool_name"])
async def test_a_hook_may_exchange_the_tool_of_a_call(key: str) -> None:
    stage = Stage("plan", calls("old"), "done", tools=[MockTool("old"), MockTool("new", output="from new")])
    stage.hook("tool:selecting", modify(**{key: "new"}))
    stage.record("tool:selecting", "tool:selected", "tool:pre", "tool:post")
    await stage.play()
    assert stage.tool_results == ["from new"]
    assert stage.tools["old"].call_count == 0
    assert [name for name, _ in stage.events] == ["tool:selecting", "tool:selected", "tool:pre", "tool:post"]
    (selecting,), (selected,), (pre,) = map(stage.emitted, ("tool:selecting", "tool:selected", "tool:pre"))
    assert selecting["available_tools"] == ["old", "new"]
    assert (selected["tool"], selected["source"], selected["original_tool"]) == ("new", "scheduler", "old")
    assert (pre["tool_name"], pre["span_id"]) == ("new", selected["span_id"])


async def test_a_hook_may_refuse_the_choice_of_a_tool() -> None:
    stage = Stage("plan", calls("look"), "done", tools=[MockTool("look")])
    stage.hook("tool:selecting", deny("too dear"))
    stage.record("tool:selected", "tool:pre", "tool:error")
    assert await stage.play() == "done"
    assert stage.tool_results == ["Denied: too dear"]
    assert stage.events == []


async def test_a_tool_that_no_hook_exchanges_is_the_models_choice() -> None:
    stage = Stage("plan", calls("look"), "done", tools=[MockTool("look", output="seen")])
    stage.record("tool:selected")
    await stage.play()
    (selected,) = stage.emitted("tool:selected")
    assert (selected["tool"], selected["source"], selected["original_tool"]) == ("look", "llm", None)
    assert stage.tool_results == ["seen"]
