"""The basic loop: the turn it plays, what hooks may change, and how it ends when something goes wrong."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from amplifier_core.llm_errors import ProviderUnavailableError, RateLimitError
from amplifier_core.message_models import (
    ChatRequest,
    ChatResponse,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallBlock,
    Usage,
)
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import EventRecorder, MockContextManager, MockCoordinator, MockTool
from amplifier_module_loop_basic import BasicOrchestrator, Settings, interruption, mount
from amplifier_module_loop_basic.orchestrator import preferred

pytestmark = pytest.mark.anyio

Answer = str | ChatResponse | Exception | Callable[[ChatRequest], Awaitable[Any]]


def calls(*wanted: ToolCall | str, text: str = "", thinking: str = "") -> ChatResponse:
    """A reply that calls tools; a bare name stands for a call without arguments."""
    made = [
        want if isinstance(want, ToolCall) else ToolCall(id=f"id-{index}", name=want, arguments={})
        for index, want in enumerate(wanted)
    ]
    blocks: list[Any] = [ThinkingBlock(thinking=thinking, signature="sig")] if thinking else []
    blocks += [TextBlock(text=text)] if text else []
    blocks += [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in made]
    return ChatResponse(content=blocks, tool_calls=made)


class Provider:
    """Answers from a list and keeps the requests it got."""

    name = "test"

    def __init__(self, *answers: Answer, priority: Any = None) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        if priority is not None:
            self.priority = priority

    async def complete(self, request: ChatRequest, **kwargs: Any) -> Any:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            return await answer(request)
        return ChatResponse(content=[TextBlock(text=answer)]) if isinstance(answer, str) else answer

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return list(response.tool_calls or [])


class Stage:
    """A session's parts around the orchestrator, on the real kernel classes."""

    def __init__(self, *answers: Answer, tools: list[Any] | None = None, **settings: Any) -> None:
        self.provider = Provider(*answers)
        self.coordinator = MockCoordinator()
        self.context = MockContextManager()
        self.coordinator.mount_points["context"] = self.context
        self.tools = {tool.name: tool for tool in tools or []}
        self.orchestrator = BasicOrchestrator(Settings(**settings))
        self.events: list[tuple[str, dict[str, Any]]] = []

    def record(self, *names: str) -> None:
        async def note(event: str, data: dict[str, Any]) -> None:
            self.events.append((event, data))

        for name in names:
            self.coordinator.hooks.register(name, note, priority=1000)

    def hook(self, event: str, result: HookResult | Callable[[dict[str, Any]], HookResult]) -> None:
        async def answer(_: str, data: dict[str, Any]) -> HookResult:
            return result(data) if callable(result) else result

        self.coordinator.hooks.register(event, answer)

    async def play(self, prompt: str = "go") -> str:
        with anyio.fail_after(10):
            return await self.orchestrator.execute(
                prompt=prompt,
                context=self.context,
                providers={"test": self.provider},
                tools=self.tools,
                hooks=self.coordinator.hooks,
                coordinator=self.coordinator,
            )

    @property
    def roles(self) -> list[str]:
        return [message["role"] for message in self.context.messages]

    @property
    def tool_messages(self) -> list[dict[str, Any]]:
        return [message for message in self.context.messages if message["role"] == "tool"]

    def told(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.events if name == event]

    def assert_whole(self) -> None:
        """Every tool call has exactly one answer, right after the reply, in the order of the calls."""
        messages = self.context.messages
        for index, message in enumerate(messages):
            ids = [call["id"] for call in message.get("tool_calls", [])]
            assert [entry.get("tool_call_id") for entry in messages[index + 1 : index + 1 + len(ids)]] == ids


def waiting_tool(
    name: str, started: asyncio.Event, gate: asyncio.Event | None = None, stopped: list[str] | None = None
) -> MockTool:
    tool = MockTool(name)

    async def execute(_: dict[str, Any]) -> ToolResult:
        started.set()
        try:
            await (gate or asyncio.Event()).wait()
        except asyncio.CancelledError:
            if stopped is not None:
                stopped.append(name)
            raise
        return ToolResult(output="finished")

    tool.execute = execute
    return tool


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
    assert tool.last_input == {"where": "here"}
    assert stage.tool_messages == [{"role": "tool", "name": "look", "tool_call_id": "c1", "content": '{"found": 1}'}]
    assert [message.role for message in second.messages] == ["user", "assistant", "tool"]
    assert second.messages[1].tool_calls[0]["id"] == "c1"
    stage.assert_whole()


async def test_thinking_keeps_its_signature_and_provider_state_travels_along() -> None:
    response = calls("look", text="let me see", thinking="hm")
    response.metadata = {"state": {"id": 5}}
    stage = Stage(response, "done", tools=[MockTool("look")])
    await stage.play()

    stored = stage.context.messages[1]
    sent = stage.provider.requests[1].messages[1]
    assert stored["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert sent.content[0] == ThinkingBlock(thinking="hm", signature="sig")
    assert sent.metadata == {"state": {"id": 5}}


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
    groups = {data["parallel_group_id"] for data in stage.told("tool:post")}
    assert len(groups) == 1
    assert {data["tool_call_id"] for data in stage.told("tool:post")} == {"id-0", "id-1"}


async def test_the_events_of_a_turn_come_in_order_with_their_keys() -> None:
    usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    reply = calls(ToolCall(id="c", name="look", arguments={"a": 1}), text="t")
    reply.usage = usage
    stage = Stage(reply, "done", tools=[MockTool("look", output="seen")])
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
    assert stage.told("prompt:submit")[0]["prompt"] == "hi"
    requests = [(data["provider"], data["iteration"]) for data in stage.told("provider:request")]
    assert requests == [("test", 1), ("test", 2)]
    assert all("max_reached" not in data for data in stage.told("provider:request"))
    first, second = stage.told("provider:response")
    assert (first["provider"], first["usage"]["total_tokens"], first["tool_calls"]) == ("test", 3, True)
    assert (second["usage"], second["tool_calls"]) == (None, False)
    starts, ends = stage.told("content_block:start"), stage.told("content_block:end")
    places = [(data["block_type"], data["block_index"], data["total_blocks"]) for data in starts]
    assert places == [("text", 0, 2), ("tool_call", 1, 2), ("text", 0, 1)]
    assert [data["block"]["type"] for data in ends] == ["text", "tool_call", "text"]
    assert [data.get("usage", {}).get("total_tokens") for data in ends] == [None, 3, None]
    (pre,), (post,) = stage.told("tool:pre"), stage.told("tool:post")
    assert (pre["tool_name"], pre["tool_input"], pre["tool_call_id"]) == ("look", {"a": 1}, "c")
    assert (post["tool_name"], post["tool_input"]) == ("look", {"a": 1})
    assert post["result"] == {"success": True, "output": "seen", "error": None}
    (complete,) = stage.told("prompt:complete")
    assert (complete["response_preview"], complete["length"]) == ("done", 4)
    (end,) = stage.told("orchestrator:complete")
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


async def test_a_tool_mounted_under_another_name_is_offered_by_that_name_and_found_by_both() -> None:
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
    assert preferred(providers) == (chosen, providers[chosen])


def test_a_priority_may_stand_in_the_providers_configuration() -> None:
    first, second = Provider(), Provider()
    second.config = {"priority": 1}
    assert preferred({"a": first, "b": second})[0] == "b"


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
    assert [data["tool_name"] for data in stage.told("tool:post")] == ["other"]


async def test_a_modified_tool_input_is_what_the_tool_gets() -> None:
    tool = MockTool("look")
    stage = Stage(calls(ToolCall(id="c", name="look", arguments={"path": "/etc"})), "done", tools=[tool])
    stage.hook("tool:pre", lambda data: HookResult(action="modify", data={**data, "tool_input": {"path": "."}}))
    stage.record("tool:post")
    await stage.play()
    assert tool.last_input == {"path": "."}
    assert stage.told("tool:post")[0]["tool_input"] == {"path": "."}


async def test_an_unmodified_tool_input_reaches_the_tool_as_the_model_wrote_it() -> None:
    tool = MockTool("look")
    arguments = {"z": 1, "a": [2]}
    stage = Stage(calls(ToolCall(id="c", name="look", arguments=arguments)), "done", tools=[tool])
    stage.hook("tool:pre", HookResult())
    await stage.play()
    assert list(tool.last_input or {}) == ["z", "a"]


@pytest.mark.parametrize(
    ("change", "content"),
    [
        (lambda result: {**result, "output": {"stdout": "short"}}, '{"stdout": "short"}'),
        (lambda result: {"success": False, "error": {"message": "hidden"}}, "hidden"),
        (lambda result: "just text", "just text"),
        (lambda result: result, '{"stdout": "long", "rc": 0}'),
    ],
    ids=["changed", "failed", "text", "same"],
)
async def test_the_model_gets_the_result_a_hook_left_it(change: Any, content: str) -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look", output={"stdout": "long", "rc": 0})])
    stage.hook("tool:post", lambda data: HookResult(action="modify", data={**data, "result": change(data["result"])}))
    await stage.play()
    assert stage.tool_messages[0]["content"] == content


async def test_the_result_reads_the_same_whether_or_not_anyone_listens() -> None:
    contents = []
    for listening in (False, True):
        stage = Stage(calls("look"), "done", tools=[MockTool("look", output={"stdout": "hi", "rc": 0})])
        if listening:
            stage.record("tool:post")
        await stage.play()
        contents.append(stage.tool_messages[0]["content"])
    assert contents == ['{"stdout": "hi", "rc": 0}'] * 2


async def test_a_withheld_result_is_replaced_by_the_reason() -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look", output="secret")])
    stage.hook("tool:post", HookResult(action="deny", reason="confidential"))
    await stage.play()
    assert stage.tool_messages[0]["content"] == "Denied: confidential"


async def test_a_lasting_injection_is_stored_once() -> None:
    stage = Stage("ok")
    stage.hook("prompt:submit", HookResult(action="inject_context", context_injection="remember"))
    await stage.play()
    texts = [message.content for message in stage.provider.requests[0].messages]
    assert texts.count("remember") == 1
    assert [message["content"] for message in stage.context.messages].count("remember") == 1


async def test_without_a_coordinator_a_lasting_injection_is_stored_all_the_same() -> None:
    stage = Stage("ok")
    stage.hook("prompt:submit", HookResult(action="inject_context", context_injection="remember"))
    await stage.orchestrator.execute("go", stage.context, {"p": stage.provider}, {}, stage.coordinator.hooks)
    assert stage.context.messages[0]["content"] == "remember"
    assert stage.context.messages[0]["metadata"]["source"] == "hook"
    assert [message.content for message in stage.provider.requests[0].messages] == ["remember", "go"]


async def test_an_injection_that_an_older_kernel_returns_after_storing_it_is_not_sent_twice() -> None:
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


async def test_an_ephemeral_injection_is_in_the_next_request_only_and_never_stored() -> None:
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


async def test_a_question_with_nobody_to_ask_is_denied() -> None:
    tool = MockTool("look")
    stage = Stage(calls("look"), "done", tools=[tool])
    stage.hook("tool:pre", HookResult(action="ask_user", approval_prompt="may it?"))
    await stage.orchestrator.execute("go", stage.context, {"p": stage.provider}, stage.tools, stage.coordinator.hooks)
    assert tool.call_count == 0
    assert "nobody to ask" in stage.tool_messages[0]["content"]


async def test_an_injection_that_is_too_large_fails_its_tool_call_and_not_the_turn() -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look")])
    stage.coordinator.config["session"]["injection_size_limit"] = 3
    stage.hook("tool:pre", HookResult(action="inject_context", context_injection="too long"))
    assert await stage.play() == "done"
    assert "exceeds 3 characters" in stage.tool_messages[0]["content"]


# --- tools that go wrong


async def test_an_unknown_tool_is_an_error_the_model_can_act_on() -> None:
    stage = Stage(calls("loko"), "done", tools=[MockTool("look")])
    stage.record("tool:error", "tool:pre")
    assert await stage.play() == "done"
    assert "no tool named `loko`" in stage.tool_messages[0]["content"]
    assert "look" in stage.tool_messages[0]["content"]
    assert [name for name, _ in stage.events] == ["tool:error"]


async def test_an_exception_of_a_tool_is_told_to_hooks_and_model_and_the_others_finish() -> None:
    broken, fine = MockTool("broken"), MockTool("fine", output="ok")
    broken.execute.side_effect = KeyError("missing")
    stage = Stage(calls("broken", "fine"), "done", tools=[broken, fine])
    stage.record("tool:error", "tool:post")

    assert await stage.play() == "done"

    assert [message["content"] for message in stage.tool_messages] == ["Error: KeyError: 'missing'", "ok"]
    (error,) = stage.told("tool:error")
    assert (error["tool_name"], error["error"]) == ("broken", {"type": "KeyError", "msg": "'missing'"})
    assert [data["tool_name"] for data in stage.told("tool:post")] == ["fine"]
    stage.assert_whole()


async def test_a_failed_result_is_a_result() -> None:
    tool = MockTool("look")
    tool.execute.side_effect = None
    tool.execute.return_value = ToolResult(success=False, error={"message": "no such file"})
    stage = Stage(calls("look"), "done", tools=[tool])
    stage.record("tool:post", "tool:error")
    await stage.play()
    assert stage.tool_messages[0]["content"] == "no such file"
    assert [name for name, _ in stage.events] == ["tool:post"]


@pytest.mark.parametrize("output", [float("nan"), {"bad": object()}], ids=["nan", "object"])
async def test_a_result_that_cannot_be_expressed_fails_its_call_only(output: Any) -> None:
    stage = Stage(calls("look"), "done", tools=[MockTool("look", output={"value": output})])
    assert await stage.play() == "done"
    assert stage.tool_messages[0]["content"].startswith("Error: ")


async def test_what_is_no_tool_result_is_taken_as_output() -> None:
    tool = MockTool("look")
    tool.execute.side_effect = None
    tool.execute.return_value = {"plain": True}
    stage = Stage(calls("look"), "done", tools=[tool])
    await stage.play()
    assert stage.tool_messages[0]["content"] == '{"plain": true}'


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
    (told,) = stage.told("provider:error")
    assert told["provider"] == "test"
    assert told["error"] == {"type": type(error).__name__, "msg": str(error)}
    assert (told["retryable"], told["status_code"]) == (retryable, status)
    assert stage.told("orchestrator:complete")[0]["status"] == "error"


async def test_the_turn_after_a_provider_error_goes_on_with_the_conversation() -> None:
    stage = Stage(calls("look"), RateLimitError("slow"), "recovered", tools=[MockTool("look")])
    with pytest.raises(RateLimitError):
        await stage.play("one")
    assert await stage.play("two") == "recovered"
    stage.assert_whole()
    assert stage.roles == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_context_that_fails_between_answers_leaves_no_call_open() -> None:
    stage = Stage(calls("a", "b"), tools=[MockTool("a"), MockTool("b")])
    store = stage.context.messages.append
    failures = iter([False, False, True, False, False])

    async def add(message: dict[str, Any]) -> None:
        if next(failures):
            raise OSError("disk full")
        store(message)

    stage.context.add_message.side_effect = add
    with pytest.raises(OSError, match="disk full"):
        await stage.play()
    stage.assert_whole()
    assert [message["content"] for message in stage.tool_messages] == ["Success", "Success"]


async def test_a_reply_that_was_not_stored_gets_no_answers() -> None:
    stage = Stage(calls("a"), tools=[MockTool("a")])

    async def add(message: dict[str, Any]) -> None:
        if message["role"] == "assistant":
            raise OSError("disk full")
        stage.context.messages.append(message)

    stage.context.add_message.side_effect = add
    with pytest.raises(OSError, match="disk full"):
        await stage.play()
    assert stage.roles == ["user"]


# --- the limit


async def test_at_the_limit_the_model_is_asked_once_more_without_tools() -> None:
    stage = Stage(calls("look"), calls("look"), "what I have", tools=[MockTool("look")], max_iterations=2)
    stage.record("provider:request", "orchestrator:complete")

    assert await stage.play() == "what I have"

    last = stage.provider.requests[-1]
    assert last.tools is None
    assert "limit" in last.messages[-1].content
    assert [data.get("max_reached") for data in stage.told("provider:request")] == [None, None, True]
    assert stage.told("orchestrator:complete")[0]["status"] == "incomplete"
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
    turn = asyncio.create_task(stage.play())
    with anyio.fail_after(5):
        await started.wait()
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
    (requested,), (completed,) = stage.told("cancel:requested"), stage.told("cancel:completed")
    assert (requested["orchestrator"], requested["state"], requested["turn_count"]) == ("loop-basic", "graceful", 1)
    assert completed["was_immediate"] is False
    assert stage.told("orchestrator:complete")[0]["status"] == "cancelled"


async def test_an_immediate_cancel_stops_running_tools_and_answers_for_them() -> None:
    stopped: list[str] = []
    started = asyncio.Event()
    stuck = waiting_tool("stuck", started, stopped=stopped)
    stage = Stage(calls("quick", "stuck"), tools=[MockTool("quick", output="fast"), stuck])
    stage.record("cancel:completed")
    turn = asyncio.create_task(stage.play())
    with anyio.fail_after(5):
        await started.wait()

    stage.coordinator.cancellation.request_immediate()

    assert await turn == ""
    contents = [message["content"] for message in stage.tool_messages]
    assert contents == ["fast", "Error: the tool call was cancelled."]
    assert stopped == ["stuck"]
    assert stage.told("cancel:completed")[0]["was_immediate"] is True
    stage.assert_whole()


async def test_an_immediate_cancel_stops_the_request_to_the_model() -> None:
    asked = asyncio.Event()

    async def never(_: ChatRequest) -> Any:
        asked.set()
        await asyncio.Event().wait()

    stage = Stage(never)
    turn = asyncio.create_task(stage.play())
    with anyio.fail_after(5):
        await asked.wait()
    stage.coordinator.cancellation.request_immediate()
    assert await turn == ""
    assert stage.roles == ["user"]


async def test_a_graceful_cancel_during_the_request_takes_the_answer_but_starts_no_tool() -> None:
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
    turn = asyncio.create_task(stage.play())
    with anyio.fail_after(5):
        await started.wait()
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
    turn = asyncio.create_task(stage.play())
    with anyio.fail_after(5):
        await started.wait()

    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn

    assert [message["content"] for message in stage.tool_messages] == [
        "fast",
        "Error: the tool call was cancelled.",
        "Error: the tool call was cancelled.",
    ]
    stage.assert_whole()
    assert stage.told("orchestrator:complete")[0]["status"] == "cancelled"


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
    turn = asyncio.create_task(stage.play())
    with anyio.fail_after(5):
        await started.wait()
    while not turn.done():
        turn.cancel()
        await asyncio.sleep(0)

    assert turn.cancelled()
    stage.assert_whole()
    assert len(stage.tool_messages) == 1


async def test_a_cancelled_scope_leaves_the_conversation_whole() -> None:
    started = asyncio.Event()
    stage = Stage(calls("stuck"), tools=[waiting_tool("stuck", started)])
    async with anyio.create_task_group() as group:
        group.start_soon(stage.play)
        with anyio.fail_after(5):
            await started.wait()
        group.cancel_scope.cancel()
    stage.assert_whole()
    assert len(stage.tool_messages) == 1


async def test_a_cancellation_that_arrives_during_the_last_steps_is_raised_after_them() -> None:
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


# --- configuration and packaging


@pytest.mark.parametrize("value", [0, -2, "10", 1.5, True, None])
async def test_a_wrong_limit_is_refused_at_mount(value: Any) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match="`max_iterations`"):
        await mount(coordinator, {"max_iterations": value})
    assert coordinator.get("orchestrator") is None


async def test_it_mounts_without_configuration() -> None:
    coordinator = MockCoordinator()
    assert await mount(coordinator) is None
    assert isinstance(coordinator.get("orchestrator"), BasicOrchestrator)


def test_the_entry_point_names_the_mount_function() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["amplifier.modules"] == {"loop-basic": "amplifier_module_loop_basic:mount"}
