"""What joins a turn of the streaming loop while it runs: steering of the person's, and a goal of the session's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from amplifier_core.models import HookResult
from amplifier_core.testing import MockTool
from amplifier_module_loop_streaming import SteeringQueueFull
from loop_stage import calls
from loop_streaming_stage import Provider, Stage

pytestmark = pytest.mark.anyio


# --- steering


async def test_steering_joins_the_conversation_before_the_next_request() -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look", output="seen")])
    stage.hook("tool:pre", lambda _: [stage.orchestrator.steer(text) for text in ("turn left", "slowly")] and None)
    stage.record("orchestrator:steering_injected")
    assert await stage.play() == "done"
    assert stage.said[-3:] == [("user", "turn left"), ("user", "slowly"), ("assistant", "done")]
    seen = stage.emitted("orchestrator:steering_injected")
    assert [(data["content"], data["queued_remaining"], data["iteration"]) for data in seen] == [
        ("turn left", 1, 2),
        ("slowly", 0, 2),
    ]
    assert seen[0]["orchestrator"] == "loop-streaming"


async def test_steering_that_comes_during_the_answer_keeps_the_turn_going() -> None:
    async def late() -> dict[str, str]:
        stage.orchestrator.steer("one more thing")
        return {"content": "first"}

    stage = Stage([late], "second")
    assert await stage.play() == "second"
    assert [text for role, text in stage.said if role == "user"] == ["go", "one more thing"]


async def test_steering_between_turns_begins_the_next_one() -> None:
    stage = Stage("done")
    stage.orchestrator.steer("be brief")
    await stage.play("go")
    assert stage.said == [("user", "go"), ("user", "be brief"), ("assistant", "done")]


async def test_steering_beyond_the_limit_is_refused_and_nothing_is_lost() -> None:
    stage = Stage("done", max_steering=2)
    stage.orchestrator.steer("a")
    stage.orchestrator.steer("b")
    with pytest.raises(SteeringQueueFull, match="2 steering messages wait already"):
        stage.orchestrator.steer("c")
    await stage.play()
    assert [text for role, text in stage.said if role == "user"] == ["go", "a", "b"]
    stage.orchestrator.steer("there is room again")


@pytest.mark.parametrize("message", ["", "  \n", None, 3])
async def test_steering_that_says_nothing_is_refused(message: Any) -> None:
    with pytest.raises(ValueError, match="must be text"):
        Stage().orchestrator.steer(message)


# --- goals


def pursuing(stage: Stage, **goal: Any) -> dict[str, Any]:
    stage.coordinator.session_state["goal"] = state = {"condition": "the tests pass", **goal}
    stage.record("orchestrator:goal_progress", "message.end", "provider:request")
    return state


async def test_a_goal_is_pursued_in_one_turn_until_a_judge_takes_it_for_reached() -> None:
    stage = Stage("tried", "tried again")
    goal = pursuing(stage)
    stage.provider.judgements = ["NOT REACHED: two tests fail", "REACHED: all green"]
    assert await stage.play() == "tried again"

    assert "two tests fail" in stage.said[2][1]
    assert [role for role, _ in stage.said] == ["user", "assistant", "user", "assistant"]
    seen = stage.emitted("orchestrator:goal_progress")
    assert [(data["state"], data["turn"], data["reason"]) for data in seen] == [
        ("continuing", 1, "two tests fail"),
        ("achieved", 2, "all green"),
    ]
    assert (goal["turns_used"], goal["continuations"]) == (2, 1)
    assert stage.coordinator.session_state["goal"] is None
    assert len(stage.emitted("message.end")) == 1
    assert [data.get("purpose") for data in stage.emitted("provider:request")] == [None, "goal", None, "goal"]


async def test_the_judge_reads_the_conversation_and_gets_no_tools() -> None:
    stage = Stage("x" * 9000, tools=[MockTool("look")])
    pursuing(stage)
    stage.provider.judgements = ["REACHED"]
    await stage.play("start")
    request = stage.provider.requests[-1]
    assert request.tools is None
    assert "the tests pass" in request.messages[-1].content
    assert "user: start" in request.messages[-1].content
    assert len(request.messages[-1].content) < 3000


@pytest.mark.parametrize(
    ("resolved", "judge"),
    [
        ([SimpleNamespace(provider="absent", model="m"), SimpleNamespace(provider="other", model="small")], "other"),
        ([SimpleNamespace(provider="provider-other", model="small")], "other"),
        ([SimpleNamespace(provider="absent", model="m")], "test"),
        ([], "test"),
        (LookupError("no such role"), "test"),
    ],
)
async def test_the_judge_is_the_model_that_is_resolved_for_its_role(resolved: Any, judge: str) -> None:
    asked = []

    class Resolver:
        async def resolve(self, role: str) -> Any:
            asked.append(role)
            if isinstance(resolved, Exception):
                raise resolved
            return resolved

    stage = Stage("done", judge_role="quick")
    pursuing(stage)
    stage.coordinator.register_capability("model_role_resolver", Resolver())
    stage.provider.judgements, other = ["REACHED"], Provider()
    other.judgements = ["REACHED"]
    assert await stage.play(other=other) == "done"
    assert asked == ["quick"]
    assert [request.model for request in other.requests] == (["small"] if judge == "other" else [])
    seen = stage.emitted("provider:request")[-1]
    assert (seen["provider"], seen.get("model")) == (judge, "small" if judge == "other" else None)


async def test_a_goal_ends_at_its_cap() -> None:
    stage = Stage("a", "b")
    pursuing(stage, cap=2)
    stage.provider.judgements = ["NOT REACHED: no", "hm, who knows"]
    assert await stage.play() == "b"
    assert [data["state"] for data in stage.emitted("orchestrator:goal_progress")] == ["continuing", "cap_hit"]
    assert stage.coordinator.session_state["goal"] is None


async def test_a_judge_that_cannot_be_asked_ends_the_goal_and_not_the_turn() -> None:
    stage = Stage("a")
    pursuing(stage)
    assert await stage.play() == "a"
    (seen,) = stage.emitted("orchestrator:goal_progress")
    assert (seen["state"], "IndexError" in seen["reason"]) == ("error", True)


async def test_a_hook_may_refuse_the_judge() -> None:
    stage = Stage("a")
    pursuing(stage)
    stage.hook(
        "provider:request",
        lambda data: HookResult(action="deny", reason="no budget") if data.get("purpose") == "goal" else None,
    )
    assert await stage.play() == "a"
    assert "no budget" in stage.emitted("orchestrator:goal_progress")[0]["reason"]


async def test_a_cancelled_turn_gives_its_goal_up() -> None:
    stage = Stage(calls("look"), tools=[MockTool("look")])
    pursuing(stage)
    stage.hook("tool:pre", lambda _: stage.coordinator.cancellation.request_graceful() and None)
    await stage.play()
    assert [data["state"] for data in stage.emitted("orchestrator:goal_progress")] == ["cancelled"]
    assert stage.coordinator.session_state["goal"] is None


@pytest.mark.parametrize("goal", [None, {}, {"condition": ""}, {"condition": 3}, "win"])
async def test_what_is_no_goal_is_left_alone(goal: Any) -> None:
    stage = Stage("a")
    stage.coordinator.session_state["goal"] = goal
    assert await stage.play() == "a"
    assert stage.coordinator.session_state["goal"] == goal
