"""The basic loop: the turn it plays, which provider it asks, and what hooks may change."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from agent_loop.providers import preferred
from amplifier_core.message_models import (
    ThinkingBlock,
    ToolCall,
    Usage,
)
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import EventRecorder, MockContextManager, MockCoordinator, MockTool
from amplifier_module_loop_basic import BasicOrchestrator
from loop_basic_stage import Stage, waiting_tool
from loop_stage import Provider, calls

pytestmark = pytest.mark.anyio


# --- the turn


async def test_a_prompt_is_answered_and_both_are_stored() -> None:
    stage = Stage("hello")
    assert await stage.play("hi") == "hello"
    assert stage.context.messages == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
    ]


async def test_tools_are_offered_called_and_their_results_sent_back() -> None:
    tool = MockTool("look", output={"found": 1})
    call = ToolCall(id="c1", name="look", arguments={"where": "here"})
    stage = Stage(calls(call), "done", tools=[tool])

    assert await stage.play() == "done"

    first, second = stage.provider.requests
    (spec,) = first.tools or []
    assert (spec.name, spec.description, spec.parameters) == ("look", tool.description, tool.input_schema)
    tool.execute.assert_awaited_once_with({"where": "here"})
    assert stage.tool_messages == [{"role": "tool", "name": "look", "tool_call_id": "c1", "content": '{"found": 1}'}]
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[1].tool_calls[0]["id"] == "c1"
    stage.assert_whole()


async def test_the_schema_of_an_older_tool_is_offered_as_well(caplog: pytest.LogCaptureFixture) -> None:
    schema = {"type": "object", "required": ["where"]}

    def failing() -> dict[str, Any]:
        raise LookupError("no schema")

    older = SimpleNamespace(name="older", description="d", get_schema=lambda: schema)
    broken = SimpleNamespace(name="broken", description="d", get_schema=failing)
    newer = SimpleNamespace(name="newer", description="d", input_schema={"type": "object"}, get_schema=failing)
    stage = Stage("done", tools=[older, broken, newer])
    await stage.play()
    offered = {spec.name: spec.parameters for spec in stage.provider.requests[0].tools or []}
    assert offered == {"older": schema, "broken": {}, "newer": newer.input_schema}
    assert "tool broken does not give its schema" in caplog.text


async def test_thinking_keeps_its_signature_and_provider_state_travels_along() -> None:
    response = calls("look", text="let me see", thinking="hm")
    response.metadata = {"state": {"id": 5, "half a character": "b\ud83d"}}
    stage = Stage(response, "done", tools=[MockTool("look")])
    await stage.play()

    stored = stage.context.messages[1]
    sent = stage.provider.requests[1].messages[1]
    assert stored["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert sent.content[0] == ThinkingBlock(thinking="hm", signature="sig")
    assert sent.metadata == stored["metadata"] == {"state": {"id": 5, "half a character": "b\ufffd"}}


async def test_tools_run_side_by_side_and_answer_in_the_order_of_the_calls() -> None:
    first_may_end = asyncio.Event()
    slow, quick = waiting_tool("slow", asyncio.Event(), first_may_end), MockTool("quick", output="quick")

    async def quick_execute(_: dict[str, Any]) -> ToolResult:
        first_may_end.set()  # only reached if both run at once
        return ToolResult(output="quick")

    quick.execute = quick_execute
    stage = Stage(calls("slow", "quick"), "done", tools=[slow, quick])
    stage.record("tool:post")

    await stage.play()

    assert [message["content"] for message in stage.tool_messages] == ["finished", "quick"]
    groups = {data["parallel_group_id"] for data in stage.emitted("tool:post")}
    assert len(groups) == 1
    assert {data["tool_call_id"] for data in stage.emitted("tool:post")} == {"id-0", "id-1"}


async def test_the_events_of_a_turn_come_in_order_with_their_keys() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    reply = calls(ToolCall(id="c", name="look", arguments={"a": 1}), text="t")
    reply.usage = usage
    stage = Stage(reply, "done", tools=[MockTool("look", output="seen")])
    stage.provider.default_model = "m-1"
    stage.record(
        "prompt:submit", "execution:start", "provider:request", "provider:response", "content_block:start",
        "content_block:end", "tool:pre", "tool:post", "execution:end", "prompt:complete", "orchestrator:complete",
    )  # fmt: skip

    await stage.play("hi")

    assert [name for name, _ in stage.events] == [
        "prompt:submit",
        "execution:start",
        "provider:request",
        "provider:response",
        "content_block:start",
        "content_block:end",
        "content_block:start",
        "content_block:end",
        "tool:pre",
        "tool:post",
        "provider:request",
        "provider:response",
        "content_block:start",
        "content_block:end",
        "execution:end",
        "prompt:complete",
        "orchestrator:complete",
    ]
    assert stage.emitted("prompt:submit")[0]["prompt"] == "hi"
    requests = [(data["provider"], data["model"], data["iteration"]) for data in stage.emitted("provider:request")]
    assert requests == [("test", "m-1", 1), ("test", "m-1", 2)]
    assert stage.emitted("provider:request")[0]["messages"] == [{"role": "user", "content": "hi"}]
    assert all("max_reached" not in data for data in stage.emitted("provider:request"))
    first, second = stage.emitted("provider:response")
    assert (first["provider"], first["usage"]["total_tokens"], first["tool_calls"]) == ("test", 3, True)
    assert first["response"]["content"][0] == {"type": "text", "text": "t"}
    assert (second["usage"], second["tool_calls"]) == (None, False)
    starts, ends = stage.emitted("content_block:start"), stage.emitted("content_block:end")
    places = [(data["block_type"], data["block_index"], data["total_blocks"]) for data in starts]
    assert places == [("text", 0, 2), ("tool_call", 1, 2), ("text", 0, 1)]
    assert [data["block"]["type"] for data in ends] == ["text", "tool_call", "text"]
    assert [data.get("usage", {}).get("total_tokens") for data in ends] == [None, 3, None]
    (pre,), (post,) = stage.emitted("tool:pre"), stage.emitted("tool:post")
    assert (pre["tool_name"], pre["tool_input"], pre["tool_call_id"]) == ("look", {"a": 1}, "c")
    assert (post["tool_name"], post["tool_input"]) == ("look", {"a": 1})
    assert post["tool_result"] == post["result"] == {"success": True, "output": "seen", "error": None}
    (complete,) = stage.emitted("prompt:complete")
    assert (complete["response_preview"], complete["length"]) == ("done", 4)
    (end,) = stage.emitted("orchestrator:complete")
    assert (end["orchestrator"], end["turn_count"], end["status"]) == ("loop-basic", 2, "success")


async def test_the_context_is_asked_for_messages_with_the_provider_at_hand() -> None:
    stage = Stage("ok")
    await stage.play()
    stage.context.get_messages_for_request.assert_awaited_once_with(provider=stage.provider)


async def test_it_works_without_a_coordinator_and_with_a_recorder_for_hooks() -> None:
    tool, context, recorder = MockTool("look", output="seen"), MockContextManager(), EventRecorder()
    answer = await BasicOrchestrator().execute(
        "go", context, {"p": Provider(calls("look"), "done")}, {"look": tool}, recorder
    )
    assert answer == "done"
    assert [message["role"] for message in context.messages] == ["user", "assistant", "tool", "assistant"]
    assert len(recorder.get_events("tool:post")) == 1


async def test_a_tool_mounted_under_another_name_is_found_by_both() -> None:
    tool = MockTool("inner", output="seen")
    stage = Stage(calls("outer", "inner"), "done")
    stage.tools = {"outer": tool}
    await stage.play()
    assert [spec.name for spec in stage.provider.requests[0].tools or []] == ["outer"]
    assert [message["content"] for message in stage.tool_messages] == ["seen", "seen"]


async def test_contexts_that_store_calls_without_content_can_be_sent() -> None:
    stage = Stage("ok")
    stage.context.messages += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": {"a": 1}},
    ]
    await stage.play()
    assert [message.content for message in stage.provider.requests[0].messages] == ["", '{"a": 1}', "go"]


# --- choosing a provider


@pytest.mark.parametrize(
    ("priorities", "chosen"),
    [
        ({"a": None, "b": None}, "a"),
        ({"a": None, "b": 99}, "b"),
        ({"a": None, "b": 101}, "a"),
        ({"a": 5, "b": 5}, "a"),
        ({"a": 5, "b": -1}, "b"),
        ({"a": "low", "b": 50}, "b"),
    ],
)
def test_the_provider_with_the_lowest_priority_is_asked(priorities: dict[str, Any], chosen: str) -> None:
    providers = {name: Provider(priority=priority) for name, priority in priorities.items()}
    assert preferred("loop-basic", providers) == (chosen, providers[chosen])


def test_a_priority_may_stand_in_the_providers_configuration() -> None:
    first, second = Provider(), Provider()
    second.config = {"priority": 1}
    assert preferred("loop-basic", {"a": first, "b": second})[0] == "b"


async def test_without_a_provider_the_error_says_what_is_missing() -> None:
    stage = Stage()
    with pytest.raises(RuntimeError, match="no provider to ask"):
        await stage.orchestrator.execute("go", stage.context, {}, {}, stage.coordinator.hooks)


# --- what hooks may do


async def test_a_denied_prompt_ends_the_turn_with_the_reason_and_is_not_stored() -> None:
    stage = Stage()
    stage.hook("prompt:submit", HookResult(action="deny", reason="not today"))
    stage.record("orchestrator:complete", "provider:request")
    assert "not today" in await stage.play()
    assert stage.context.messages == []
    assert [(name, data["status"]) for name, data in stage.events] == [("orchestrator:complete", "denied")]


async def test_a_denied_request_ends_the_turn_with_the_reason() -> None:
    stage = Stage()
    stage.hook("provider:request", HookResult(action="deny", reason="no budget"))
    assert "no budget" in await stage.play()
    assert stage.provider.requests == []


async def test_a_modified_prompt_is_what_the_model_gets() -> None:
    stage = Stage("ok")
    stage.hook("prompt:submit", lambda data: HookResult(action="modify", data={**data, "prompt": "better"}))
    await stage.play("good")
    assert stage.context.messages[0]["content"] == "better"


async def test_a_denied_tool_call_does_not_run_and_the_model_is_told_why() -> None:
    tool, other = MockTool("look"), MockTool("other", output="fine")
    stage = Stage(calls("look", "other"), "done", tools=[tool, other])

    def judge(data: dict[str, Any]) -> HookResult:
        return HookResult(action="deny", reason="forbidden") if data["tool_name"] == "look" else HookResult()

    stage.hook("tool:pre", judge)
    stage.record("tool:post")
    await stage.play()
    assert tool.call_count == 0
    assert [message["content"] for message in stage.tool_messages] == ["Denied: forbidden", "fine"]
    assert [data["tool_name"] for data in stage.emitted("tool:post")] == ["other"]


async def test_a_modified_tool_input_is_what_the_tool_gets() -> None:
    tool = MockTool("look")
    stage = Stage(calls(ToolCall(id="c", name="look", arguments={"path": "/etc"})), "done", tools=[tool])
    stage.hook("tool:pre", lambda data: HookResult(action="modify", data={**data, "tool_input": {"path": "."}}))
    stage.record("tool:post")
    await stage.play()
    tool.execute.assert_awaited_once_with({"path": "."})
    assert stage.emitted("tool:post")[0]["tool_input"] == {"path": "."}


async def test_an_unmodified_tool_input_reaches_the_tool_as_the_model_wrote_it() -> None:
    tool = MockTool("look")
    arguments = {"z": 1, "a": [2]}
    stage = Stage(calls(ToolCall(id="c", name="look", arguments=arguments)), "done", tools=[tool])
    stage.hook("tool:pre", HookResult())
    await stage.play()
    (given,) = tool.execute.await_args.args
    assert list(given) == ["z", "a"]


@pytest.mark.parametrize(
    ("change", "content"),
    [
        (lambda result: {**result, "output": {"stdout": "short"}}, '{"stdout": "short"}'),
        (lambda result: {"success": False, "error": {"message": "hidden"}}, "hidden"),
        (lambda result: "just text", "just text"),
        (lambda result: result, '{"stdout": "long", "rc": 0}'),
        (None, "Denied: confidential"),
    ],
    ids=["changed", "failed", "text", "same", "withheld"],
)
async def test_the_model_gets_the_result_a_hook_left_it(change: Any, content: str) -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look", output={"stdout": "long", "rc": 0})])
    withheld = HookResult(action="deny", reason="confidential")
    stage.hook(
        "tool:post",
        lambda data: (
            HookResult(action="modify", data={**data, "result": change(data["result"])}) if change else withheld
        ),
    )
    await stage.play()
    assert stage.tool_messages[0]["content"] == content


async def test_without_a_coordinator_a_lasting_injection_is_stored_all_the_same() -> None:
    stage = Stage("ok")
    stage.hook("prompt:submit", HookResult(action="inject_context", context_injection="remember"))
    await stage.orchestrator.execute("go", stage.context, {"p": stage.provider}, {}, stage.coordinator.hooks)
    assert stage.context.messages[0]["content"] == "remember"
    assert stage.context.messages[0]["metadata"]["source"] == "hook"
    assert [message.content for message in stage.provider.requests[0].messages] == ["remember", "go"]


async def test_an_injection_that_was_stored_already_is_not_sent_twice() -> None:
    class OlderCoordinator(MockCoordinator):
        async def process_hook_result(self, result: HookResult, event: str, hook_name: str = "") -> HookResult:
            await super().process_hook_result(result, event, hook_name)
            return result

    stage = Stage("ok")
    stage.coordinator = OlderCoordinator()
    stage.coordinator.mount_points["context"] = stage.context
    stage.hook("prompt:submit", HookResult(action="inject_context", context_injection="remember"))
    await stage.play()
    assert [message.content for message in stage.provider.requests[0].messages] == ["remember", "go"]


async def test_an_ephemeral_injection_is_in_the_next_request_only() -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look")])
    injection = HookResult(
        action="inject_context", context_injection="status", context_injection_role="user", ephemeral=True
    )
    stage.hook("prompt:submit", injection)
    await stage.play()
    first, second = stage.provider.requests
    assert (first.messages[-1].role, first.messages[-1].content) == ("user", "status")
    assert all(message.content != "status" for message in second.messages)
    assert all(message["content"] != "status" for message in stage.context.messages)


async def test_an_injection_may_join_the_last_tool_result() -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look", output="seen")])
    injection = HookResult(
        action="inject_context", context_injection="careful", ephemeral=True, append_to_last_tool_result=True
    )
    stage.hook("tool:post", injection)
    await stage.play()
    assert stage.provider.requests[1].messages[-1].content == "seen\n\ncareful"
    assert stage.tool_messages[0]["content"] == "seen"


async def test_an_injection_without_a_tool_result_to_join_stands_alone() -> None:
    stage = Stage("done")
    injection = HookResult(
        action="inject_context", context_injection="careful", ephemeral=True, append_to_last_tool_result=True
    )
    stage.hook("provider:request", injection)
    await stage.play()
    last = stage.provider.requests[0].messages[-1]
    assert (last.role, last.content) == ("system", "careful")


async def test_several_injections_are_kept_apart_by_their_kind() -> None:
    stage = Stage("ok")
    stage.hook("prompt:submit", HookResult(action="inject_context", context_injection="stays"))
    stage.hook("prompt:submit", HookResult(action="inject_context", context_injection="passes", ephemeral=True))
    await stage.play()
    assert [message.content for message in stage.provider.requests[0].messages] == ["stays", "go", "passes"]
    assert [message["content"] for message in stage.context.messages][:2] == ["stays", "go"]


@pytest.mark.parametrize(("reply", "ran"), [("Allow", 1), ("Deny", 0)])
async def test_a_question_is_put_to_the_person(reply: str, ran: int) -> None:
    tool = MockTool("look")
    stage = Stage(calls("look"), "done", tools=[tool])
    stage.coordinator.approval_system.request_approval.return_value = reply
    stage.hook("tool:pre", HookResult(action="ask_user", approval_prompt="may it?"))
    await stage.play()
    assert tool.call_count == ran


async def test_a_question_that_no_person_can_answer_is_denied() -> None:
    tool = MockTool("look")
    stage = Stage(calls("look"), "done", tools=[tool])
    stage.hook("tool:pre", HookResult(action="ask_user", approval_prompt="may it?"))
    await stage.orchestrator.execute("go", stage.context, {"p": stage.provider}, stage.tools, stage.coordinator.hooks)
    assert tool.call_count == 0
    assert "no person can be asked" in stage.tool_messages[0]["content"]


async def test_an_injection_that_is_too_large_fails_only_its_tool_call() -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look")])
    stage.coordinator.config["session"]["injection_size_limit"] = 3
    stage.hook("tool:pre", HookResult(action="inject_context", context_injection="too long"))
    assert await stage.play() == "done"
    assert "exceeds 3 characters" in stage.tool_messages[0]["content"]


async def test_a_result_that_the_context_does_not_take_leaves_no_call_open() -> None:
    stage = Stage(calls("look", "see"), "on it goes", tools=[MockTool("look", output="x" * 900), MockTool("see")])
    add_message = stage.context.add_message

    async def add_if_short(message: dict[str, Any]) -> None:
        if len(message["content"]) > 800:
            raise RuntimeError("there is no room for " + "x" * 10_000)
        await add_message(message)

    stage.context.add_message = add_if_short
    with pytest.raises(RuntimeError, match="there is no room"):
        await stage.play()
    assert [len(message["content"]) < 800 for message in stage.tool_messages] == [True, True]
    stage.assert_whole()
    assert await stage.play("again") == "on it goes"
