"""The ids on the events of a turn, the fields that the specifications name, and the event that ends a turn."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from amplifier_core.llm_errors import RateLimitError
from amplifier_core.models import HookResult, ToolResult
from amplifier_core.testing import MockTool
from loop_basic_stage import Stage, waiting_tool
from loop_stage import calls

pytestmark = pytest.mark.anyio

_ENDS = ("execution:end", "prompt:complete", "orchestrator:complete", "message.end", "error")


async def test_every_event_has_the_ids_of_its_operation() -> None:
    stage = Stage(calls("a", "b"), "done", tools=[MockTool("a"), MockTool("b")])
    stage.record(
        "prompt:submit", "execution:start", "provider:request", "provider:response", "content_block:start",
        "content_block:end", "tool:pre", "tool:post", *_ENDS,
    )  # fmt: skip
    await stage.play()

    (turn,) = {data["turn_id"] for _, data in stage.events}
    roots = [data for name, data in stage.events if name in ("prompt:submit", "execution:start", *_ENDS)]
    (root,) = {data["span_id"] for data in roots}
    assert turn and all("parent_span_id" not in data and "iteration" not in data for data in roots)
    first, second = stage.emitted("provider:request")
    assert [(data["parent_span_id"], data["iteration"]) for data in (first, second)] == [(root, 1), (root, 2)]
    assert first["span_id"] != second["span_id"]
    replies = [data for name, data in stage.events if name.startswith(("provider:resp", "content_block"))]
    assert [data["span_id"] for data in replies if data["iteration"] == 2] == [second["span_id"]] * 3
    tools = [(data["tool_name"], data["span_id"]) for data in stage.emitted("tool:pre")]
    assert len({span for _, span in tools}) == 2
    assert sorted(tools) == sorted((data["tool_name"], data["span_id"]) for data in stage.emitted("tool:post"))
    assert {(data["parent_span_id"], data["iteration"]) for data in stage.emitted("tool:pre")} == {
        (first["span_id"], 1)
    }


async def test_the_application_names_one_turn_and_the_next_gets_an_id() -> None:
    stage = Stage("one", "two")
    stage.record("prompt:submit", "message.end")
    stage.coordinator.session_state["turn_id"] = "theirs"
    await stage.play()
    await stage.play()
    ids = [data["turn_id"] for _, data in stage.events]
    assert ids[:2] == ["theirs"] * 2
    assert ids[2] == ids[3] != "theirs"
    assert "turn_id" not in stage.coordinator.session_state


def telling_tool(stage: Stage) -> MockTool:
    """A tool that emits events of its own, one that names no turn and one that does."""
    tool = MockTool("tell")

    async def execute(_: dict[str, Any]) -> ToolResult:
        await stage.coordinator.hooks.emit("artifact:read", {"path": "a"})
        await stage.coordinator.hooks.emit("artifact:write", {"turn_id": "its own"})
        return ToolResult(output="said")

    tool.execute = execute
    return tool


async def test_events_of_others_name_the_turn_while_it_runs() -> None:
    stage = Stage(calls("tell"), "done", RateLimitError("slow down"))
    stage.tools["tell"] = telling_tool(stage)
    stage.record("prompt:submit", "artifact:read", "artifact:write", "session:end")
    session = {"session_id": stage.coordinator.session_id, "parent_id": stage.coordinator.parent_id}
    await stage.play()
    (turn,) = {data["turn_id"] for data in stage.emitted("prompt:submit")}
    (read,), (write,) = stage.emitted("artifact:read"), stage.emitted("artifact:write")
    assert (read["turn_id"], write["turn_id"]) == (turn, "its own")
    assert read.items() >= session.items()
    with pytest.raises(RateLimitError):
        await stage.play()
    await stage.coordinator.hooks.emit("session:end", {})
    (end,) = stage.emitted("session:end")
    assert "turn_id" not in end and end.items() >= session.items()


async def test_events_of_others_name_no_turn_while_two_run() -> None:
    gate, started = asyncio.Event(), asyncio.Event()
    stage = Stage(calls("wait"), calls("tell"), "second done", calls("tell"), "first done")
    stage.tools |= {"wait": waiting_tool("wait", started, gate), "tell": telling_tool(stage)}
    stage.record("artifact:read")
    async with anyio.create_task_group() as group:
        group.start_soon(stage.play, "first")
        await started.wait()
        await stage.play("second")
        gate.set()
    during, after = stage.emitted("artifact:read")
    assert "turn_id" not in during and after["turn_id"]


async def test_a_registry_that_refuses_fields_does_not_fail_the_turn() -> None:
    stage, refused = Stage("hello"), []

    class Refusing:
        emit = stage.coordinator.hooks.emit

        def set_default_fields(self, **fields: Any) -> None:
            refused.append(fields)
            raise PermissionError("not yours")

    answer = await stage.orchestrator.execute(
        "go", stage.context, {"test": stage.provider}, {}, Refusing(), stage.coordinator
    )
    assert answer == "hello" and ["turn_id" in fields for fields in refused] == [True, False]


async def test_the_ids_reach_the_provider_and_the_tool() -> None:
    tool, seen = MockTool("look"), []

    async def execute(_: dict[str, Any]) -> ToolResult:
        seen.append(dict(stage.coordinator._tool_dispatch_contexts[asyncio.current_task()]))
        return ToolResult(output="seen")

    tool.execute = execute
    stage = Stage(calls("look"), "done", tools=[tool])
    stage.record("provider:request", "tool:pre")
    await stage.play()

    request, pre = stage.emitted("provider:request")[0], stage.emitted("tool:pre")[0]
    ids = ("turn_id", "span_id", "parent_span_id", "iteration")
    assert stage.provider.requests[0].metadata == {name: request[name] for name in ids}
    assert seen == [{name: pre[name] for name in (*ids, "tool_call_id", "parallel_group_id")}]
    assert stage.coordinator._tool_dispatch_contexts == {}


async def test_requests_do_not_show_the_conversation_where_that_is_set() -> None:
    stage = Stage("done", show_messages=False)
    stage.record("provider:request")
    await stage.play()
    assert "messages" not in stage.emitted("provider:request")[0]


async def test_hooks_are_shown_the_latest_messages_bounded_and_masked() -> None:
    call = {"id": "1", "name": "log_in", "arguments": {"user": "ada", "password": "s3cret"}}
    stage = Stage("done")
    stage.context.messages += [{"role": "user", "content": "x" * 11_000}] * 12
    stage.context.messages += [{"role": "assistant", "content": "", "tool_calls": [call]}]
    stage.record("provider:request")
    await stage.play("hi")
    seen = stage.emitted("provider:request")[0]["messages"]
    assert seen[-1]["content"] == "hi" and len(seen) == 11
    assert seen[-2]["tool_calls"][0]["arguments"] == {"user": "ada", "password": "[REDACTED]"}
    assert seen[0]["content"] == "x" * 10_000 + "... (truncated 1000 chars)"
    assert stage.context.messages[0]["content"] == "x" * 11_000


async def test_what_no_hook_is_shown_is_not_asked_for() -> None:
    stage = Stage("done")
    await stage.play()
    assert stage.context.get_messages_for_request.await_count == 1


# --- names of tools


async def test_a_tool_is_called_by_its_own_name_and_judged_by_the_mounted_one() -> None:
    asked = ["my_tool", "my-tool", "shadowed", "twin"]
    stage = Stage(calls(*asked), "done")
    own = {"my-tool": "my_tool", "hidden": "shadowed", "shadowed": "x", "one": "twin", "two": "twin"}
    stage.tools = {mounted: MockTool(name, output=mounted) for mounted, name in own.items()}
    stage.record("tool:pre")
    await stage.play()
    assert [data["tool_name"] for data in stage.emitted("tool:pre")] == ["my-tool", "my-tool", "shadowed"]
    answers = [one["content"] for one in stage.context.messages if one["role"] == "tool"]
    assert answers[:3] == ["my-tool", "my-tool", "shadowed"] and "there is no tool named `twin`" in answers[3]
    assert [tool.name for tool in stage.provider.requests[0].tools] == list(own)


# --- the end of a turn


@pytest.mark.parametrize(
    ("action", "status", "shown"), [("continue", "success", "hello"), ("deny", "denied", "Denied: not today")]
)
async def test_a_turn_ends_with_message_end(action: str, status: str, shown: str) -> None:
    stage = Stage("hello")
    stage.hook("prompt:submit", HookResult(action=action, reason="not today"))
    stage.record(*_ENDS)
    await stage.play()
    assert [name for name, _ in stage.events] == list(_ENDS[:4])
    (end,) = stage.emitted("message.end")
    assert (end["status"], end["response_preview"], end["length"]) == (status, shown, len(shown))
    assert end["turn_count"] == (status == "success")


async def test_a_failed_turn_ends_with_error() -> None:
    stage = Stage(RateLimitError("slow down"))
    stage.record(*_ENDS)
    with pytest.raises(RateLimitError):
        await stage.play()
    assert [name for name, _ in stage.events] == [*_ENDS[:3], "error"]
    (error,) = stage.emitted("error")
    assert (error["status"], error["error"]) == ("error", {"type": "RateLimitError", "msg": "slow down"})
    assert error["turn_id"] == stage.emitted("prompt:complete")[0]["turn_id"]


@pytest.mark.parametrize("outside", [False, True], ids=["by the session", "from outside"])
async def test_a_cancelled_turn_ends_with_message_end(outside: bool) -> None:
    started = asyncio.Event()
    stage = Stage(calls("stuck"), tools=[waiting_tool("stuck", started)])
    stage.record(*_ENDS)
    turn = await stage.begun(started)
    turn.cancel() if outside else stage.coordinator.cancellation.request_immediate()
    await asyncio.wait([turn])
    assert [name for name, _ in stage.events] == list(_ENDS[:4])
    assert stage.emitted("message.end")[0]["status"] == "cancelled"


async def test_a_turn_ends_once_even_when_a_hook_fails_its_end() -> None:
    stage = Stage("hello")
    stage.coordinator.config["session"]["injection_size_limit"] = 3
    stage.hook("prompt:complete", HookResult(action="inject_context", context_injection="too long"))
    stage.record("message.end", "error")
    with pytest.raises(ValueError, match="exceeds 3 characters"):
        await stage.play()
    assert [name for name, _ in stage.events] == ["message.end"]
