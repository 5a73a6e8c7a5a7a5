"""What an application brings to a session: hooks, approval, display, capabilities, state and a resolver of its own."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from integration.conftest import WriteModule
from integration.probe import loop_code, tool_code
from paddock import Session
from paddock.session.requester import Requester, current_requester
from paddock_sdk.contract.interfaces import ApprovalRequest, ApprovalResponse
from paddock_sdk.contract.models import HookResult
from paddock_sdk.contract.module_sources import ModuleNotFoundError

_LOOK = """
    from amplifier_core.models import HookResult, ToolResult

    class Look:
        name = "look"
        description = "tells what it found when it was mounted, and what it finds now"

        def __init__(self, coordinator):
            self.coordinator = coordinator
            self.at_mount = self.found()

        def found(self):
            coordinator = self.coordinator
            answer = coordinator.get_capability("answer")
            return {
                "answer": answer.give() if answer else None,
                "state": coordinator.session_state.get("note"),
                "config": coordinator.config.get("note"),
                "parent": coordinator.parent_id,
            }

        async def execute(self, input):
            hooks = self.coordinator.hooks
            if input.get("ask"):
                result = HookResult(action="ask_user", approval_prompt="May I?", approval_options=["Allow", "Deny"])
                answered = await self.coordinator.process_hook_result(result, "look:asked", "look")
                return ToolResult(output=answered.action)
            if input.get("tell"):
                self.coordinator.display_system.show_message("here I am", "info", "look")
            heard = await hooks.emit("look:now", {})
            return ToolResult(output={"at_mount": self.at_mount, "now": self.found(), "heard": heard.action})

    async def mount(coordinator, config):
        await coordinator.mount("tools", Look(coordinator))
"""
_DIRECT = """
    if prompt.startswith("ask"):
        from amplifier_core.models import HookResult

        result = HookResult(action="ask_user", approval_prompt="May I?", approval_options=["Allow", "Deny"])
        return (await coordinator.process_hook_result(result, "direct:asked", "direct")).action
    result = await tools["look"].execute(json.loads(prompt))
    return json.dumps(result.output)
"""


class Answer:
    def __init__(self, value: str) -> None:
        self.value = value

    def give(self) -> str:
        return self.value


class Person:
    def __init__(self, reply: str) -> None:
        self.reply = reply

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        return self.reply


@pytest.fixture
def plan(write_module: WriteModule) -> dict[str, Any]:
    return {
        "session": {
            "orchestrator": {"module": "loop-direct", "source": write_module("loop-direct", loop_code(_DIRECT))},
            "context": {"module": "context-simple"},
        },
        "tools": [{"module": "tool-look", "source": write_module("tool-look", _LOOK)}],
    }


async def test_early_registrations_are_there_when_modules_mount(
    plan: dict[str, Any],
) -> None:
    session = Session(plan, parent_id="parent")
    coordinator = session.coordinator
    coordinator.register_capability("answer", Answer("early"))
    coordinator.session_state["note"] = "in state"
    coordinator.config["note"] = "in config"
    events: list[str] = []

    async def note(event: str, data: dict[str, Any]) -> HookResult:
        events.append(event)
        return HookResult()

    for event in ("session:fork", "session:start", "session:end"):
        coordinator.hooks.register(event, note)
    async with session:
        seen = json.loads(await session.execute("{}"))
    assert seen["at_mount"] == {"answer": "early", "state": "in state", "config": "in config", "parent": "parent"}
    assert events == ["session:fork", "session:start", "session:end"]


class PublishedNotFoundError(Exception):
    """What the published package's `ModuleNotFoundError` is to Paddock: another class of that name."""


@pytest.mark.exhaustive("PublishedNotFoundError")
@pytest.mark.parametrize("not_found", [ModuleNotFoundError, PublishedNotFoundError])
async def test_an_applications_resolver_is_asked_for_every_module(
    plan: dict[str, Any],
    write_module: WriteModule,
    not_found: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = SimpleNamespace(ModuleNotFoundError=not_found)
    monkeypatch.setitem(sys.modules, "amplifier_core.module_sources", package)  # type: ignore[arg-type]
    asked: list[tuple[str, object]] = []
    folder = Path(write_module("tool-look", _LOOK))

    class Found:
        def resolve(self) -> Path:
            return folder

    class Resolver:
        async def async_resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> Found:
            asked.append((module_id, source_hint))
            if module_id == "tool-look":
                return Found()
            raise not_found(f"{module_id} is none of mine")

    del plan["tools"][0]["source"]
    session = Session(plan, trust_plan=True)
    await session.coordinator.mount("module-source-resolver", Resolver())
    async with session:
        assert json.loads(await session.execute("{}"))["heard"] == "continue"
    assert {module_id for module_id, _ in asked} == {"loop-direct", "context-simple", "tool-look"}
    assert dict(asked)["tool-look"] is None


_RESOLVER_SEEKER = """
    return repr(coordinator.get("module-source-resolver"))
"""


async def test_a_module_does_not_get_to_see_the_applications_resolver(
    plan: dict[str, Any], write_module: WriteModule
) -> None:
    class Resolver:
        def resolve(self, module_id: str, source_hint: object = None, profile_hint: object = None) -> object:
            raise ModuleNotFoundError(module_id)

    seeker = write_module("loop-seeker", loop_code(_RESOLVER_SEEKER))
    plan["session"]["orchestrator"] = {"module": "loop-seeker", "source": seeker}
    session = Session(plan)
    resolver = Resolver()
    await session.coordinator.mount("module-source-resolver", resolver)
    assert session.coordinator.get("module-source-resolver") is resolver
    async with session:
        assert await session.execute("") == "None"


async def test_a_module_put_into_the_configuration_later_is_not_started(
    plan: dict[str, Any], write_module: WriteModule
) -> None:
    failures: list[dict[str, Any]] = []
    session = Session(plan)

    async def note(event: str, data: dict[str, Any]) -> None:
        failures.append(data)

    session.coordinator.hooks.register("module:load_failed", note)
    extra = write_module("tool-extra", _LOOK.replace('"look"', '"extra"'))
    session.coordinator.config["tools"].append({"module": "tool-extra", "source": extra})
    async with session:
        assert [status.module for status in session.modules] == ["loop-direct", "context-simple", "tool-look"]
        assert list(session.coordinator.get("tools")) == ["look"]
    assert failures[0]["module_id"] == "tool-extra"
    assert "after the plan was read" in failures[0]["error"]


async def test_a_session_can_be_opened_and_closed_by_name_but_only_once(plan: dict[str, Any]) -> None:
    session = Session(plan, is_resumed=True)
    started: list[str] = []

    async def note(event: str, data: dict[str, Any]) -> None:
        started.append(event)

    session.coordinator.hooks.register("session:start", note)
    session.coordinator.hooks.register("session:resume", note)
    await session.initialize()
    await session.execute("{}")
    await session.cleanup()
    assert started == ["session:resume"]
    with pytest.raises(RuntimeError, match="not open"):
        await session.execute("{}")
    with pytest.raises(RuntimeError, match="opened before"):
        await session.initialize()


_ASKING = """
    import asyncio

    from amplifier_core import ApprovalRequest, HookResult

    class Gate:
        def __init__(self):
            self.provider = None

        def register_provider(self, provider):
            self.provider = provider

        async def before_tool(self, event, data):
            if self.provider is None:
                return HookResult(action="deny", reason="nobody to ask")
            request = ApprovalRequest(tool_name=data["tool_name"], action="look around", risk_level="high")
            reply = await self.provider.request_approval(request)
            return HookResult() if reply.approved else HookResult(action="deny", reason=reply.reason)

    async def mount(coordinator, config):
        gate = Gate()
        coordinator.hooks.register("tool:pre", gate.before_tool, priority=-10, name="gate")
        coordinator.register_capability("approval.register_provider", gate.register_provider)
"""
_GATED = loop_code("""
    result = await hooks.emit("tool:pre", {"tool_name": "look", "tool_input": {}})
    return f"{result.action}: {result.reason}"
    """)


class Questioned(Person):
    """Somebody who remembers what was asked."""

    def __init__(self, reply: str) -> None:
        super().__init__(reply)
        self.asked: list[tuple[str, Requester | None]] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked.append((prompt, current_requester()))
        return self.reply


async def test_a_hook_is_handed_a_provider_that_asks_the_approval_system(
    plan: dict[str, Any], write_module: WriteModule
) -> None:
    plan["session"]["orchestrator"] = {"module": "loop-gated", "source": write_module("loop-gated", _GATED)}
    plan["hooks"] = [{"module": "hooks-gate", "source": write_module("hooks-gate", _ASKING)}]
    async with Session(plan) as session:
        assert await session.execute("") == "deny: nobody to ask"
    person = Questioned("")
    async with Session(plan, approval=person) as session:
        for reply, answer in (
            ("Allow once", "continue: None"),
            ("Deny", "deny: The answer was 'Deny'"),
            ("deny", "deny: No option was chosen, which counts as 'deny'"),
        ):
            person.reply = reply
            assert await session.execute("") == answer
    assert person.asked == [("look: look around (risk: high)", Requester("hook", "hooks-gate", "look"))] * 3


async def test_an_approval_provider_of_the_application_has_the_last_word(
    plan: dict[str, Any], write_module: WriteModule
) -> None:
    class Provider:
        async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
            return ApprovalResponse(approved=False, reason=f"{request.tool_name} is out of the question")

    plan["session"]["orchestrator"] = {"module": "loop-gated", "source": write_module("loop-gated", _GATED)}
    plan["hooks"] = [{"module": "hooks-gate", "source": write_module("hooks-gate", _ASKING)}]
    async with Session(plan, approval=Person("Allow once")) as session:
        await session.coordinator.get_capability("approval.register_provider")(Provider())
        assert await session.execute("") == "deny: look is out of the question"


_DELEGATE = tool_code(
    "look",
    """
    spawn = coordinator.get_capability("session.spawn")
    return ToolResult(output=await spawn("helper", "look", parent_session=coordinator.session))
    """,
)


@pytest.mark.exhaustive("False")
@pytest.mark.parametrize("is_before", [True, False])
async def test_an_application_that_spawns_itself_gets_the_real_session(
    plan: dict[str, Any], write_module: WriteModule, is_before: bool
) -> None:
    asked: list[tuple[str, bool]] = []
    source = write_module("tool-delegate", _DELEGATE)
    plan["tools"] = [{"module": "tool-delegate", "source": source, "permissions": {"call": ["spawn"]}}]
    plan["agents"] = {"helper": {"description": "helps"}}
    session = Session(plan, trust_plan=True)

    async def spawn(agent_name: str, instruction: str, parent_session: Any = None, **wishes: Any) -> dict[str, Any]:
        asked.append((agent_name, parent_session.coordinator is session.coordinator))
        return {"output": "looked", "session_id": "mine"}

    if is_before:
        session.coordinator.register_capability("session.spawn", spawn)
    async with session:
        if not is_before:
            session.coordinator.register_capability("session.spawn", spawn)
        assert json.loads(await session.execute("{}")) == {"output": "looked", "session_id": "mine"}
    assert asked == [("helper", True)]


_FAILING = """
    return {}[prompt]  # \x1b]0;a title\x07
"""


async def test_a_turns_error_shows_the_modules_lines_escaped(plan: dict[str, Any], write_module: WriteModule) -> None:
    plan["session"]["orchestrator"] = {
        "module": "loop-failing",
        "source": write_module("loop-failing", loop_code(_FAILING)),
    }
    async with Session(plan) as session:
        with pytest.raises(KeyError) as caught:
            await session.execute("missing")
    shown = "".join(traceback.format_exception(caught.value))
    assert "in module `loop-failing`:" in shown and "return {}[prompt]" in shown
    assert "paddock_sdk/worker" not in shown
    assert "\x1b" not in shown
