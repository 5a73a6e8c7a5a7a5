"""The tools of a session as a client has them, with the real hooks and coordinator, and tools of the test's own."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.cli.terminal.json_output import plain
from paddock.errors import Denial
from paddock.mcp_server.client_approval import ClientApproval, ClientCall
from paddock.mcp_server.served import ServedTools
from paddock.rpc.marshal import Marshaller
from paddock.session.requester import Requester, note_prompt
from paddock.session.state.coordinator import HostedCoordinator
from paddock.session.state.mirrors import Mirrors
from paddock.workers.exit_report import ExitReason, ExitReport
from paddock_sdk.contract.models import HookResult, ToolResult
from support.rows import each_row

from .scripted import Json

_REFUSED = Denial("read", "/etc/hostname", "tool-x", grant='permissions: {read: ["/etc/hostname"]}')


class Runtime:
    """The part of a runtime that is served, with tools that are functions."""

    def __init__(self, **tools: Any) -> None:
        marshaller = Marshaller()
        session = SimpleNamespace(session_id="s", parent_id=None, config={"session": {}})
        self.coordinator: Any = HostedCoordinator(session, marshaller, Mirrors(marshaller))
        self.coordinator.get = lambda point: self.by_name
        self.router = SimpleNamespace(now=lambda: 0.0)
        self.by_name = {name: SimpleNamespace(execute=one, input_schema=None) for name, one in tools.items()}
        self.on_end: Any = None
        supervisor = SimpleNamespace(on_exit=self._on_exit, quarantined=False, is_revoked=False)
        self.module: Any = SimpleNamespace(reports=[], denials=[], supervisor=supervisor)
        self.modules = SimpleNamespace(all=[self.module])
        self.denied: list[Any] = []

    def _on_exit(self, act: Any) -> None:
        self.on_end = act

    def module_of(self, tool: object) -> Any:
        return self.module

    async def denials_of(self, tool: object, began: float) -> Any:
        self.denied.append(tool)
        return (_REFUSED,)


class Use:
    """A served plan, its hooks, and its one client."""

    def __init__(self, **tools: Any) -> None:
        self.given: list[Any] = []
        self.runtime = Runtime(**(tools or {"look": self._look}))
        self.asked: list[tuple[str, Json]] = []
        self.reply: Any = {"action": "accept", "content": {"answer": "Allow"}}
        self.approval = ClientApproval()
        self.runtime.coordinator.approval_system = self.approval
        self.served = ServedTools(self.runtime, self.approval, partial(plain, mask=self._mask))  # type: ignore[arg-type]

    async def _look(self, arguments: Any) -> ToolResult:
        self.given.append(arguments)
        if "raise" in arguments:
            raise RuntimeError("no way")
        success = "fail" not in arguments
        return ToolResult(success=success, output={"saw": 1}, error=None if success else {"message": "it failed"})

    def _mask(self, text: str) -> str:
        return text.replace("hunter2", "[secret]")

    def hook(self, event: str, **answer: Any) -> None:
        """Have a handler answer an event; a question is noted in its name, as that of a module is."""

        def handle(event: str, data: Any) -> HookResult:
            if answer.get("action") == "ask_user":
                note_prompt(Requester("hook", "hooks-x"), answer["approval_prompt"])
            return HookResult(**answer)

        self.runtime.coordinator.hooks.register(event, handle)

    async def elicit(self, message: str, schema: Json) -> Json:
        self.asked.append((message, schema))
        if self.reply is None:
            await asyncio.Event().wait()
        return self.reply

    async def call(self, arguments: Json | None = None, *, name: str = "look", can_ask: bool = True) -> Any:
        client = ClientCall(self.elicit if can_ask else None, lambda done, total, message: None)
        return await self.served.call(name, arguments or {}, client)


def _texts(result: Any) -> list[str]:
    return [block["text"] for block in result["content"]]


def test_tools_are_listed_by_name_with_a_schema_of_an_object() -> None:
    use = Use(c=None, a=None, b=None, **{"no name": None})
    schema = {"properties": {"x": {"title": "hunter2"}}}
    use.runtime.by_name["a"] = SimpleNamespace(input_schema=schema, description="does a", title="A")
    use.runtime.by_name["b"] = SimpleNamespace(input_schema={"type": "string"}, description="does b")
    a, b, c = use.served.tools()
    assert (a["name"], a["description"], a["title"]) == ("a", "does a", "A")
    assert a["inputSchema"] == {"type": "object", "properties": {"x": {"title": "[secret]"}}}
    assert b == {"name": "b", "description": "does b", "inputSchema": {"type": "object"}}
    assert c == {"name": "c", "inputSchema": {"type": "object"}}


async def test_a_call_is_judged_before_and_after_it() -> None:
    use = Use()
    seen: list[Any] = []
    for event in ("tool:pre", "tool:post"):
        use.runtime.coordinator.hooks.register(event, lambda event, data: seen.append((event, data)))
    result = await use.call({"at": "it"})
    assert (result["structuredContent"], result["isError"]) == ({"saw": 1}, False)
    (_, before), (_, after) = seen
    assert (before["tool_name"], before["tool_input"]) == ("look", {"at": "it"})
    assert after["result"]["output"] == {"saw": 1} and after["tool_call_id"] == before["tool_call_id"]


@each_row(
    ("event", "answer", "text", "given"),
    [
        ("tool:pre", {"action": "deny", "reason": "not today"}, "Denied: not today", []),
        ("tool:pre", {"action": "modify", "data": {"tool_input": {"at": "b"}}}, '{"saw": 1}', [{"at": "b"}]),
        ("tool:pre", {"action": "modify", "data": {"tool_input": "b"}}, "a hook replaced the tool's input", []),
        ("tool:pre", {"action": "inject_context", "context_injection": "hm"}, '{"saw": 1}', [{"at": "a"}]),
        ("tool:post", {"action": "deny", "reason": "secret"}, "Denied: secret", [{"at": "a"}]),
        ("tool:post", {"action": "modify", "data": {"result": {"output": "less"}}}, "less", [{"at": "a"}]),
        ("tool:post", {"action": "modify", "data": {"result": "less"}}, "less", [{"at": "a"}]),
    ],
)
async def test_what_a_hook_answers_holds(event: str, answer: Any, text: str, given: Any) -> None:
    use = Use()
    use.hook(event, **answer)
    result = await use.call({"at": "a"})
    assert _texts(result)[0].startswith(text) and use.given == given
    assert result["isError"] is (answer["action"] == "deny" or "replaced" in text)


@pytest.mark.parametrize("arguments", [{"fail": 1}, {"raise": 1}])
async def test_a_failure_says_what_was_refused_and_the_line_that_allows_it(arguments: Json) -> None:
    use = Use()
    failures: list[Any] = []
    use.runtime.coordinator.hooks.register("tool:error", lambda event, data: failures.append(data["error"]))
    result = await use.call(arguments)
    assert result["isError"]
    said, denied = _texts(result)[0], _texts(result)[-1]
    assert said == ("it failed" if "fail" in arguments else "RuntimeError: no way")
    assert denied == (
        "module `tool-x` may not read `/etc/hostname`; to allow it, write in the entry of `tool-x` in the plan: "
        'permissions: {read: ["/etc/hostname"]}'
    )
    assert failures == ([] if "fail" in arguments else [{"type": "RuntimeError", "msg": "no way"}])
    assert use.runtime.denied == [use.runtime.by_name["look"]]
    assert not use.runtime.coordinator.cancellation.running_tools


async def test_an_unknown_tool_is_none() -> None:
    with pytest.raises(LookupError, match="there is no tool 'nothing'"):
        await Use().call(name="nothing")


# -- questions


@each_row(
    ("reply", "runs"),
    [
        ({"action": "accept", "content": {"answer": "Allow"}}, True),
        ({"action": "accept", "content": {"answer": "Deny"}}, False),
        ({"action": "accept", "content": {"answer": "allow"}}, False),
        ({"action": "accept", "content": {"answer": ["Allow"]}}, False),
        ({"action": "accept"}, False),
        ({"action": "decline", "content": {"answer": "Allow"}}, False),
        ({"action": "cancel"}, False),
    ],
)
async def test_the_person_at_the_client_decides(reply: Any, runs: bool) -> None:
    use = Use()
    use.reply = reply
    use.hook("tool:pre", action="ask_user", approval_prompt="May\x1b[2J it?", approval_options=["Allow", "Deny"])
    result = await use.call({"at": "a"})
    ((message, schema),) = use.asked
    assert message == "module `hooks-x` asks: May\\x1b[2J it?"
    assert schema["properties"]["answer"]["enum"] == ["Allow", "Deny"] and schema["required"] == ["answer"]
    assert (use.given == [{"at": "a"}], result["isError"]) == (runs, not runs)


@pytest.mark.parametrize("default", ["allow", "deny"])
@pytest.mark.parametrize("can_ask", [True, False], ids=["late", "unattended"])
async def test_without_an_answer_the_default_holds(can_ask: bool, default: Any) -> None:
    use = Use()
    use.reply = None
    more: Any = {"approval_timeout": 0.01, "approval_default": default}
    use.hook("tool:pre", action="ask_user", approval_prompt="May it?", **more)
    assert (await use.call(can_ask=can_ask))["isError"] is (default == "deny")
    assert use.approval.is_attended is can_ask and len(use.asked) == can_ask


async def test_outside_a_call_nobody_is_asked() -> None:
    use = Use()
    assert await use.approval.request_approval("May I?", ["Allow", "Deny"], 1.0, "deny") == "deny"
    assert not use.asked


async def test_what_a_person_chooses_from_acts_on_no_terminal() -> None:
    use = Use()
    use.reply = {"action": "accept", "content": {"answer": "Al\\x1b[2Klow\\u202e"}}
    with use.approval.serving(ClientCall(use.elicit, lambda done, total, message: None)):
        assert (
            await use.approval.request_approval("May I?", ["Al\x1b[2Klow\u202e", "Deny"], 1.0, "deny")
            == "Al\x1b[2Klow\u202e"
        )
    ((_, schema),) = use.asked
    assert schema["properties"]["answer"]["enum"] == ["Al\\x1b[2Klow\\u202e", "Deny"]


async def test_progress_goes_to_the_call_that_an_event_serves() -> None:
    async def far(arguments: Any) -> ToolResult:
        await asyncio.sleep(0)
        for done in (arguments["done"], "half", float("inf")):
            event = {"tool_name": "far", "progress": done, "total": None, "message": "on"}
            await use.runtime.coordinator.hooks.emit("tool:progress", event)
        return ToolResult()

    use = Use(far=far)
    told: list[Any] = []

    async def call(done: int) -> None:
        client = ClientCall(None, lambda *given: told.append((done, *given)))
        await use.served.call("far", {"done": done}, client)

    await asyncio.gather(call(1), call(2))
    assert sorted(told) == [(1, 1, None, "on"), (2, 2, None, "on")]


# -- changes


async def test_other_tools_after_the_end_of_a_module_are_told_and_none_ends_it() -> None:
    use = Use()
    told: list[Any] = []
    use.served.on_change(lambda: told.append(use.served.end))
    use.runtime.on_end(None)
    assert not told
    use.runtime.by_name["more"] = use.runtime.by_name["look"]
    use.runtime.on_end(None)
    assert told == [None]
    use.runtime.by_name.clear()
    use.runtime.module.reports.append(ExitReport("tool-x", ExitReason.EXITED, 1.0, 3))
    use.runtime.on_end(None)
    assert told[1].exit_code == 5 and "tool-x" in str(told[1])


async def test_a_call_notices_that_the_tools_are_others() -> None:
    use = Use()
    told: list[None] = []
    use.served.on_change(lambda: told.append(None))
    use.runtime.by_name["more"] = use.runtime.by_name["look"]
    await use.call()
    assert len(told) == 1
