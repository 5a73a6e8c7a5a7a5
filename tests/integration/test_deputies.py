"""The host reads, writes down, calls and asks for modules: never more than the module itself was shown, may or is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.conftest import OpenSession
from integration.probe import entry_of, probe, probed
from paddock.session.requester import current_requester

# -- what the host reads -----------------------------------------------------------------------


@dataclass(eq=False)
class _Client:
    """An object of the application that says all it holds when it is written down."""

    endpoint: str = "https://there"
    api_key: str = "SUPERSECRET"

    def ping(self) -> str:
        return "pong"


_TELLING = """
    from pathlib import Path

    from amplifier_core.models import HookResult

    async def mount(coordinator, config):
        def value(how):
            client = coordinator.get_capability("app.client")
            return {"itself": client, "in a set": {client}, "in an error": ValueError(client), "session":
                    coordinator.session, "a function": coordinator.get_capability("app.function"),
                    "ordinary": Path("/there"), "an ordinary error": ValueError("why")}[how]

        async def handler(event, data):
            answer = {"action": data["action"], "data": {**data, "told": value(data["how"])}}
            return HookResult(**answer) if data["as"] == "result" else answer

        coordinator.hooks.register("tell", handler)
"""

_TOLD = {
    "itself": "<Client>",
    "in a set": "{'<Client>'}",
    "in an error": "<Client in another process>",  # which the module itself put in words
    "session": "<AmplifierSession>",
    "ordinary": "/there",
    "an ordinary error": "why",
}


async def test_an_event_tells_no_more_of_an_application_object_than_its_name(open_session: OpenSession) -> None:
    body = """
told = {}
for form in ("result", "mapping"):
    for how in input["how"]:
        result = await coordinator.hooks.emit("tell", {"action": "modify", "how": how, "as": form})
        collected = await coordinator.hooks.emit_and_collect("tell", {"action": "continue", "how": how, "as": form})
        told[f"{form} {how}"] = [result.data["told"], *(one["told"] for one in collected)]
refused = await coordinator.hooks.emit("tell", {"action": "modify", "how": "a function", "as": "result"})
denied = await coordinator.hooks.emit("tell", {"action": "deny", "how": "itself", "as": "result"})
return ToolResult(output=[told, refused.action, denied.data["told"], coordinator.get_capability("app.client").ping()])
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-telling", _TELLING)]) as session:
        session.coordinator.register_capability("app.client", _Client())
        session.coordinator.register_capability("app.function", lambda: None)
        told, refused, denied, called = await probed(session, how=list(_TOLD))
    assert {key: set(value) for key, value in told.items()} == {
        f"{form} {how}": {text.replace("Client", "_Client")}
        for form in ("result", "mapping")
        for how, text in _TOLD.items()
    }
    assert (refused, denied) == ("deny", "<_Client>")
    assert called == "pong", "which is what the module was handed it for"


async def test_an_application_object_in_a_question_is_only_named(open_session: OpenSession) -> None:
    asked: list[Any] = []

    class Approval:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            asked.append([prompt, options])
            return options[0]

    body = """
client = coordinator.get_capability("app.client")
reply = await coordinator.approval_system.request_approval("Go on?", [client, "Deny"], 5.0, "deny")
return ToolResult(output=[reply, await coordinator.get_capability("hook.ask")()])
"""
    asking = """
        from amplifier_core.interfaces import ApprovalRequest

        async def mount(coordinator, config):
            taken = []
            coordinator.register_capability("approval.register_provider", taken.append)

            async def ask():
                client = coordinator.get_capability("app.client")
                details = {"client": client, "nested": {"set": {client}}, "plain": 1}
                return (await taken[0].request_approval(
                    ApprovalRequest(tool_name="bash", action="rm", risk_level="low", details=details)
                )).approved

            coordinator.register_capability("hook.ask", ask)
    """
    async with open_session(
        tools=[probe(body)], hooks=[entry_of("hooks-asking", asking)], approval=Approval()
    ) as session:
        session.coordinator.register_capability("app.client", _Client())
        reply, approved = await probed(session)
    assert (reply, approved) == ("<_Client>", True)
    assert asked[0][1] == ["<_Client>", "Deny"]
    assert '"client": "<_Client>"' in asked[1][0] and '"plain": 1' in asked[1][0]
    assert "SUPERSECRET" not in repr(asked)


async def test_an_arguments_problem_shows_no_application_data(open_session: OpenSession) -> None:
    body = """
from amplifier_core.models import HookResult
client = coordinator.get_capability("app.client")
function = coordinator.get_capability("app.function")
try:
    await function(HookResult.model_construct(_fields_set={"action", "reason"}, action="deny", reason=client))
    said = ""
except ValueError as error:
    said = f"{error} {error.args} {vars(error)}"
return ToolResult(output=[said, await function(HookResult(action="deny", reason="ordinary"))])
"""

    async def function(value: Any) -> Any:
        return value.reason

    async with open_session(tools=[probe(body)]) as session:
        session.coordinator.register_capability("app.client", _Client())
        session.coordinator.register_capability("app.function", function)
        said, answered = await probed(session)
    assert "ValidationError" in said and "SUPERSECRET" not in said and "https://there" not in said
    assert answered == "ordinary"


# -- what the host calls -----------------------------------------------------------------------

_TARGET_PROCESS = """
    from amplifier_core.models import ToolResult

    class TargetProcess:
        name = "victim"
        description = "is called by those who may"
        calls = []

        async def execute(self, input):
            calls, TargetProcess.calls = TargetProcess.calls, []
            return ToolResult(output=calls)

        async def __call__(self, *args):
            TargetProcess.calls.append("event" if args else "call")
            return None if args else "what only those who may call are told"

    async def mount(coordinator, config):
        await coordinator.mount("tools", TargetProcess())
"""

_REGISTERING = """
victim = coordinator.get("tools", "victim")
ways = {
    "contributor": lambda: coordinator.register_contributor("mine", "x", victim),
    "handler": lambda: coordinator.hooks.register("mine", victim),
    "on cancel": lambda: coordinator.cancellation.on_cancel(victim),
    "cleanup": lambda: coordinator.register_cleanup(victim),
}
refused = {}
for name, way in ways.items():
    try:
        way()
    except PermissionError as error:
        refused[name] = str(error)
collected = await coordinator.collect_contributions("mine")
await coordinator.hooks.emit("mine", {})
return ToolResult(output=[refused, collected])
"""


@pytest.mark.parametrize("may_call", [False, True])
async def test_what_a_module_registers_the_host_calls_only_if_the_module_may(
    may_call: bool, open_session: OpenSession
) -> None:
    permissions: dict[str, list[str]] = {"hooks": ["mine"], **({"call": ["tools:victim"]} if may_call else {})}
    async with open_session(
        tools=[entry_of("tool-victim", _TARGET_PROCESS), probe(_REGISTERING, permissions=permissions)]
    ) as session:
        refused, collected = await probed(session)
        await session.coordinator.cancellation.trigger_callbacks()
        calls = (await session.coordinator.get("tools", "victim").execute({})).output
        await session.coordinator.cleanup()
        at_the_end = (await session.coordinator.get("tools", "victim").execute({})).output
        (module,) = [module for module in session.modules if module.module == "tool-probe"]
        denials = [(denial["operation"], denial["target"], denial["times"]) for denial in module.denials]
    if may_call:
        assert (refused, denials) == ({}, [])
        assert collected == ["what only those who may call are told"]
        assert (calls, at_the_end) == (["call", "event", "call"], ["call"])
    else:
        said = "module `tool-probe` may not call `tools:victim`"
        assert refused == dict.fromkeys(("contributor", "handler", "on cancel", "cleanup"), said)
        assert denials == [("call", "tools:victim", 4)]
        assert (collected, calls, at_the_end) == ([], [], [])


async def test_what_was_lent_for_a_call_is_not_called_for_its_borrower_after_it(open_session: OpenSession) -> None:
    giver = """
        class Treasure:
            async def __call__(self):
                return "gold"

        async def mount(coordinator, config):
            coordinator.register_capability("treasure", lambda: Treasure())
    """
    lender = """
        async def mount(coordinator, config):
            async def lend():
                return await coordinator.get_capability("borrow")(coordinator.get_capability("treasure")())

            coordinator.register_capability("lend", lend)
    """
    body = """
async def borrow(treasure):
    coordinator.register_contributor("loot", "mine", treasure)
    return await coordinator.collect_contributions("loot")

coordinator.register_capability("borrow", borrow)
during = await coordinator.get_capability("lend")()
return ToolResult(output=[during, await coordinator.collect_contributions("loot")])
"""
    async with open_session(
        tools=[probe(body)], hooks=[entry_of("hooks-giver", giver), entry_of("hooks-lender", lender)]
    ) as session:
        assert await probed(session) == [["gold"], []]


async def test_a_module_registers_an_application_function_it_may_call(open_session: OpenSession) -> None:
    heard: list[str] = []

    async def hear(event: str = "", data: Any = None) -> Any:
        heard.append(event)
        return {"action": "modify", "data": {**data, "heard": True}} if event else "contributed"

    body = """
hear = coordinator.get_capability("hear")
coordinator.hooks.register("mine", hear)
coordinator.register_contributor("mine", "x", hear)
coordinator.cancellation.on_cancel(hear)
coordinator.register_cleanup(hear)
result = await coordinator.hooks.emit("mine", {})
collected = await coordinator.collect_contributions("mine")
return ToolResult(output=[result.data["heard"], collected])
"""
    async with open_session(tools=[probe(body, permissions={"hooks": ["mine"]})]) as session:
        session.coordinator.register_capability("hear", hear)
        assert await probed(session) == [True, ["contributed"]]
        await session.coordinator.cancellation.trigger_callbacks()
        assert heard == ["mine", "", ""]
    assert heard == ["mine", "", "", ""], "at the end"


async def test_a_contribution_hands_on_no_object_that_its_module_was_only_shown(open_session: OpenSession) -> None:
    sharing = """
        async def mount(coordinator, config):
            async def secret():
                return "told to who collects, and by nobody else's call"

            coordinator.register_contributor("theirs", "secret", secret)
    """
    body = """
shown = coordinator.channels["theirs"][0]["callback"]
coordinator.register_contributor("mine", "x", lambda: {"theirs": shown, "own": lambda: "own"})
(got,) = await coordinator.collect_contributions("mine")
return ToolResult(output=[str(got["theirs"]), got["own"]()])
"""
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-sharing", sharing)]) as session:
        assert await probed(session) == ["<secret>", "own"]


_REPLACING = """
    import os
    from pathlib import Path

    from amplifier_core.models import ToolResult

    class Impostor:
        name = "impostor"
        description = "would be called for the victim"

        async def execute(self, input):
            if input.get("die"):
                os._exit(1)
            return ToolResult(output="impostor")

        async def __call__(self, *args):
            return None

    async def mount(coordinator, config):
        first = Path(config["mark"])
        impostor = Impostor()
        victim = impostor if first.exists() else coordinator.get("tools", "victim")
        first.touch()
        coordinator.register_capability("x", victim)
        coordinator.register_capability("own", impostor)
        await coordinator.mount("tools", impostor)
"""


async def test_a_restarted_module_takes_the_place_of_nothing_that_is_not_its_own(
    open_session: OpenSession, tmp_path: Path
) -> None:
    async with open_session(
        tools=[
            entry_of("tool-victim", _TARGET_PROCESS),
            entry_of("tool-replacing", _REPLACING, config={"mark": str(tmp_path / "mark")}),
        ]
    ) as session:
        tools, own = session.coordinator.get("tools"), session.coordinator.get_capability("own")
        assert not (await own.execute({"die": True})).success
        assert (await tools["impostor"].execute({})).output == "impostor"
        assert (await own.execute({})).output == "impostor", "its own is there again for who holds it"
        assert (await tools["victim"].execute({})).output == [], "and what is not is what it was"


# -- what the host asks ------------------------------------------------------------------------


class _Person:
    """Allows everything, and notes in whose name it was asked."""

    def __init__(self) -> None:
        self.requesters: list[str] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        requester = current_requester()
        self.requesters.append(requester.name if requester is not None else "")
        return "Allow once"


async def test_an_approval_provider_answers_only_its_own_hook(open_session: OpenSession) -> None:
    lending = """
        from amplifier_core.interfaces import ApprovalRequest

        async def mount(coordinator, config):
            taken = []
            coordinator.register_capability("approval.register_provider", taken.append)

            async def ask():
                request = ApprovalRequest(tool_name="bash", action="rm", risk_level="low")
                return (await taken[0].request_approval(request)).approved

            def lend():
                coordinator.register_capability("lent", taken[0])

            coordinator.register_capability("hook.ask", ask)
            coordinator.register_capability("hook.lend", lend)
    """
    body = """
from amplifier_core.interfaces import ApprovalRequest
coordinator.get_capability("hook.lend")()
request = ApprovalRequest(tool_name="bash", action="rm", risk_level="low")
try:
    stolen = (await coordinator.get_capability("lent").request_approval(request)).approved
except PermissionError as error:
    stolen = str(error)
return ToolResult(output=[stolen, await coordinator.get_capability("hook.ask")()])
"""
    person = _Person()
    async with open_session(
        tools=[probe(body)], hooks=[entry_of("hooks-lending", lending)], approval=person
    ) as session:
        stolen, asked = await probed(session)
        (module,) = [module for module in session.modules if module.module == "tool-probe"]
        denied = [denial["target"] for denial in module.denials]
    assert stolen == (
        "module `tool-probe` may not call `the approval provider of hooks-lending`: it asks in that module's name"
    )
    assert denied == ["the approval provider of hooks-lending"]
    assert asked is True
    assert person.requesters == ["hooks-lending"]


async def test_nothing_that_is_anothers_is_handed_a_provider_of_approvals(open_session: OpenSession) -> None:
    handed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_handed(what: str) -> None:
        if not handed.done():
            handed.set_result(what)

    target_process = """
        class TargetProcess:
            name = "victim"
            description = "is called by those who may"

            def __init__(self, coordinator):
                self.coordinator = coordinator

            async def execute(self, input):
                return None

            async def __call__(self, provider):
                self.coordinator.get_capability("on_handed")("the victim")

        async def mount(coordinator, config):
            await coordinator.mount("tools", TargetProcess(coordinator))
    """
    body = """
coordinator.register_capability("approval.register_provider", coordinator.get("tools", "victim"))
coordinator.register_capability(
    "approval.register_provider", lambda provider: coordinator.get_capability("on_handed")("its own function")
)
return ToolResult(output=True)
"""
    async with open_session(
        tools=[entry_of("tool-victim", target_process), probe(body)], approval=_Person()
    ) as session:
        session.coordinator.register_capability("on_handed", on_handed)
        assert await probed(session) is True
        assert await asyncio.wait_for(handed, 60) == "its own function"
