"""What a module cannot talk the host into by way of a sub-session, and the guards that hold there too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from integration.agents import MARK, OpenAgentSession, audited, mark_entry
from integration.command_line import require_level
from integration.conftest import WriteModule
from integration.probe import tool_code
from paddock_sandbox.profile import IsolationLevel

_GUARD = """
    async def mount(coordinator, config):
        async def deny(event, data):
            if data["tool_name"] == config["guards"]:
                return {"action": "deny", "reason": "guarded"}

        coordinator.hooks.register("tool:pre", deny)
"""

_TOLD = """
    async def mount(coordinator, config):
        async def deny(event, data):
            if data["tool_name"] in coordinator.session_state.get("guarded", ()):
                return {"action": "deny", "reason": "told"}

        coordinator.hooks.register("tool:pre", deny)
"""

_ODD = """
    class Odd:
        def get(self, *args):
            return "anything"

        def __len__(self):
            return 7

    class Late(Odd):
        async def get(self, *args):
            return "anything"

    class OddContext:
        \"\"\"Says that it holds what no message is.\"\"\"

        def __init__(self):
            self.messages = []

        async def add_message(self, message):
            self.messages.append(message)

        async def get_messages(self):
            said = self.messages[0]["content"]
            odd = {"one": Odd(), "number": 5, "parts": [{"role": Odd(), "content": Odd(), "tool_calls": Odd()}]}
            return odd.get(said, [Odd(), Late(), *self.messages, 7, None])

        get_messages_for_request = get_messages

        async def set_messages(self, messages):
            self.messages = list(messages)

        async def clear(self):
            self.messages = []

    async def mount(coordinator, config):
        await coordinator.mount("context", OddContext())
"""


async def test_only_a_module_that_is_granted_to_start_sub_sessions_can(open_family: OpenAgentSession) -> None:
    async with open_family(call=()) as family:  # all others here are
        assert "may not call `spawn`" in await family.refused()
        (denial,) = family.session.modules[2].denials
        assert denial["grant"].endswith('call: ["spawn"]}')


async def test_a_hook_is_left_out_only_where_the_plan_allows_it(
    open_family: OpenAgentSession, write_module: WriteModule
) -> None:
    guards = {
        name: {"module": f"hooks-{name}", "source": write_module(f"hooks-{name}", _GUARD), "config": {"guards": name}}
        for name in ("strict", "lax")
    }
    guards["lax"]["on_failure"] = "continue"
    marks = mark_entry(write_module, names=[*guards])
    async with open_family(tools=[marks], hooks=[*guards.values()]) as family:
        orders = {name: json.dumps({"tool": name, "input": {}}) for name in guards}
        for order in orders.values():
            assert json.loads(await family.session.execute(order)) == {"denied": "guarded"}
        unwanted = await family.spawn("helper", orders["lax"], hook_inheritance="none")
        assert json.loads(unwanted["output"])["success"]
        # A session below is asked for without hooks by one that was.
        below = {"agent_name": "self", "instruction": orders["strict"], "hook_inheritance": "none"}
        order = json.dumps({"tool": "task", "input": below})
        twice = json.loads((await family.spawn("self", order, hook_inheritance="none"))["output"])
        assert json.loads(twice["output"]["output"]) == {"denied": "guarded"}


async def test_the_applications_hooks_and_what_it_told_a_guard_hold_too(
    open_family: OpenAgentSession, write_module: WriteModule
) -> None:
    guard = {"module": "hooks-told", "source": write_module("hooks-told", _TOLD)}
    order, other = (json.dumps({"tool": name, "input": {}}) for name in ("mark", "other"))
    below = json.dumps({"tool": "task", "input": {"agent_name": "self", "instruction": order}})
    async with open_family(tools=[mark_entry(write_module, names=["mark", "other"])], hooks=[guard]) as family:
        assert json.loads((await family.spawn("helper", order))["output"])["success"]

        async def deny(event: str, data: dict[str, Any]) -> dict[str, Any] | None:
            return {"action": "deny", "reason": "the application"} if data["tool_name"] == "other" else None

        family.session.coordinator.hooks.register("tool:pre", deny)
        family.session.coordinator.session_state["guarded"] = {"mark"}
        assert json.loads((await family.spawn("helper", other))["output"]) == {"denied": "the application"}
        deeper = json.loads((await family.spawn("self", below))["output"])["output"]
        assert json.loads(deeper["output"]) == {"denied": "told"}


async def test_what_a_module_says_adds_nothing_to_what_the_plan_says_of_agents(
    open_family: OpenAgentSession, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    smuggled = {
        "tools": [mark_entry(write_module) | {"permissions": {"write": ["/"]}}],
        "session": {"orchestrator": {"module": "loop-mark", "source": write_module("loop-mark", MARK)}},
    }
    monkeypatch.setenv("VERY_SECRET_KEY", "hunter2hunter2")
    async with open_family() as family:
        known = await family.see(
            agent_configs={"helper": smuggled},
            tools=smuggled["tools"],
            permissions={"run": "*"},
            orchestrator_config={"key": "${VERY_SECRET_KEY}"},
        )
        assert known["tools"] == ["doomed", "task"]
        assert known["loop"] == {"key": "${VERY_SECRET_KEY}"}  # a reference to a secret stays the text that it is
        said = await family.refused("intruder", agent_configs={"intruder": smuggled})
        assert "no agent `intruder`" in said and "helper, self" in said


_EARLIER = {"role": "user", "content": "earlier"}

_MUCH: list[list[None]] = [[]] * 18_000  # little to send, and more than 2 MiB of memory

_NO_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"sub_session_id": "../../etc"}, "sub_session_id begins with"),
    ({"own_parent": False, "parent_session": "another"}, "parent_session is the session that asks"),
    ({"orchestrator_config": {"x": _MUCH}, "session_metadata": {"y": _MUCH}}, "more than 4 MiB of memory"),
]


async def test_a_request_that_is_none_is_refused_before_anything_starts(
    open_family: OpenAgentSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with open_family() as family:
        for wishes, said in _NO_REQUESTS:
            assert said in await family.refused(**wishes)
        assert "there is a session" in await family.refused(sub_session_id=family.session.session_id)
        events = [line["event"] for line in audited(tmp_path)]
        assert events.count("module.started") == 3 and "sub_session.started" not in events
        wanted = [{"provider": "none", "model": "m"}]
        known = await family.see(
            orchestrator_config={"x": _MUCH}, parent_messages=[_EARLIER], provider_preferences=wanted
        )
        assert known["loop"] == {"x": _MUCH} and known["messages"] == ["earlier", "be kind", "see"]

        # What is passed on is bounded over all sessions of a line.
        for given, is_started in (("a little", True), (_MUCH, False)):
            wishes = {"agent_name": "self", "instruction": "one", "orchestrator_config": {"y": given}}
            order = json.dumps({"tool": "task", "input": wishes})
            inner = json.loads((await family.spawn("self", order, orchestrator_config={"x": _MUCH}))["output"])
            assert inner["success"] is is_started, inner
        assert "with what the sessions above it were given" in inner["error"]["message"]


@pytest.mark.exhaustive
async def test_a_context_that_holds_what_no_message_is_fails_nothing(
    open_family: OpenAgentSession, write_module: WriteModule
) -> None:
    odd = {"session": {"context": {"module": "context-odd", "source": write_module("context-odd", _ODD)}}}
    async with open_family({"odd": odd}) as family:
        for said in ("one", "number", "parts", "list"):
            result = await family.spawn("odd", said, sub_session_id=said)
            assert result["status"] == "success"
            again = await family.resume(said, "list")
            assert again["success"] is (said != "parts"), again  # there an object is in a message, and goes with it


_READ = tool_code(
    "read",
    """
    from amplifier_core import ToolResult
    try:
        return ToolResult(output=open(input["path"]).read())
    except OSError as error:
        return ToolResult(output=error.strerror)
    """,
)


@pytest.mark.exhaustive("landlock")
async def test_a_path_leads_a_sub_session_where_it_led_the_session(
    open_family: OpenAgentSession, write_module: WriteModule, tmp_path: Path, level: IsolationLevel
) -> None:
    require_level(level)
    data, keys = tmp_path / "work/data", tmp_path / "keys"
    for folder, text in ((data, "no key"), (keys, "the key")):
        folder.mkdir(parents=True)
        (folder / "id_x").write_text(text)
    read = {
        "module": "tool-read",
        "source": write_module("tool-read", _READ),
        "permissions": {"read": ["./data"], "net": ["127.0.0.1:9"]},  # with a network, each worker's shelter is new
    }
    order = json.dumps({"tool": "read", "input": {"path": str(data / "id_x")}})
    async with open_family(tools=[read], isolation=level) as family:
        assert json.loads((await family.spawn("helper", order))["output"])["output"] == "no key"
        data.rename(tmp_path / "work/moved")
        data.symlink_to(keys)  # as a module may do that can write to the folder
        assert (data / "id_x").read_text() == "the key"
        answer = await family.call("task", agent_name="helper", instruction=order)
    assert "the key" not in json.dumps(answer), answer
    assert not answer["success"] or "No such file" in answer["output"]["output"], answer
