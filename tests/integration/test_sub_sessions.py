"""Sub-sessions of a plan's agents: what they are given, and what of them can be resumed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from integration.agents import TASK, OpenAgentSession, mark_entry
from integration.command_line import require_level
from integration.conftest import OpenSession, WriteModule
from integration.probe import tool_code
from paddock_sandbox.profile import IsolationLevel
from vendors.echoing_server import OpenAIServer

_FETCH = tool_code(
    "fetch",
    """
    import os
    import urllib.request
    mark = os.path.expanduser("~/mark")
    open(mark, "a").write("x")
    with urllib.request.urlopen(input["url"]) as answer:
        return ToolResult(output=[answer.status, len(open(mark).read())])
    """,
)


async def test_an_agent_works_in_a_session_of_its_own_and_goes_on_in_it(
    open_family: OpenAgentSession, write_module: WriteModule, tmp_path: Path
) -> None:
    plans = mark_entry(write_module, name="mark", deep={"a": 1, "b": 2})
    over = {"module": "tool-mark", "config": {"deep": {"b": 3}}}
    agents = {"marker": {"tools": [over]}, "a" * 600: {}}
    async with open_family(agents, tools=[plans], session_id="chat 42/é") as family:
        heard: list[tuple[str, str, str | None]] = []

        async def hear(event: str, data: dict[str, Any]) -> None:
            heard.append((event, data["session_id"], data["parent_id"]))

        for event in ("session:fork", "session:start", "session:resume", "session:end"):
            family.session.coordinator.hooks.register(event, hear)
        family.session.coordinator.register_capability("of.app", "an application's")
        result = await family.spawn(self_delegation_depth=2, session_metadata={"why": "a test"})
        parent, id = family.session.session_id, result["session_id"]
        assert re.fullmatch(re.escape(parent) + "-[0-9a-f]{16}_helper", id)
        assert (result["status"], result["turn_count"], result["metadata"]) == ("success", 2, {"a": 1})
        seen = json.loads(result["output"])
        assert (seen["id"], seen["parent"]) == (id, parent)
        assert seen["messages"] == ["be kind", "see"]
        assert seen["tools"] == ["doomed", "mark", "task"]
        assert seen["capabilities"] == {
            "self_delegation_depth": 2,
            "session.working_dir": str(tmp_path / "work"),
            "of.app": "an application's",
            "of.module": "something",  # of the sub-session's own tool-task
        }
        assert seen["config"]["agents"]["helper"]["description"] == "helps"
        assert seen["config"]["session"]["metadata"] == {"why": "a test"}
        assert [event for event in heard if event[1] != parent] == [
            (event, id, parent) for event in ("session:fork", "session:start", "session:end")
        ]
        assert len(family.session.modules) == 4  # the session's own: those of the sub-session are no part of it

        # It is gone on with where it was.
        second = (await family.resume(id, "see"))["output"]
        assert second["session_id"] == id and ("session:resume", id, parent) in heard
        assert json.loads(second["output"])["messages"] == ["be kind", "see", "see"]
        for other in ("nobody", parent):
            assert "to go on with" in (await family.resume(other, "see"))["error"]["message"]

        # Another one has the tools that are wished for, with the agent's entry over the plan's.
        order = json.dumps({"tool": "mark", "input": {}})
        answer = await family.spawn("marker", order, sub_session_id="mine", tool_inheritance={"inherit_tools": []})
        assert answer["session_id"] == "mine"
        assert "there is a session `mine` already" in await family.refused(sub_session_id="mine")
        assert json.loads(answer["output"])["output"] == {"name": "mark", "deep": {"a": 1, "b": 3}}
        assert (await family.call("mark"))["output"]["deep"] == {"a": 1, "b": 2}
        for wish in ({"exclude_tools": ["tool-mark"]}, {"inherit_tools": ["tool-task"]}, ["tool-task"]):
            made = await family.spawn("a" * 600, tool_inheritance=wish)
            assert json.loads(made["output"])["tools"] == ["doomed", "task"]
        again = await family.resume(made["session_id"], "one")  # its id is no longer than a file's name
        assert again["success"], again["error"]


async def test_a_session_without_agents_starts_no_others(open_session: OpenSession, write_module: WriteModule) -> None:
    task = {"module": "tool-task", "source": write_module("tool-task", TASK), "permissions": {"call": ["spawn"]}}
    async with open_session(tools=[task]) as session:
        answer = json.loads(await session.execute('{"tool": "task", "input": {}}'))
    assert answer["error"] == {"message": "no one starts sub-sessions"}


@pytest.mark.exhaustive
async def test_an_agents_own_module_starts_with_it_by_its_entry(
    open_family: OpenAgentSession, write_module: WriteModule, tmp_path: Path
) -> None:
    log, granted, other = tmp_path / "log", tmp_path / "here" / "granted", tmp_path / "other"
    log.touch()
    granted.parent.mkdir()
    own = mark_entry(write_module, log=str(log), name="own")
    own["permissions"] = {"write": [str(log), str(granted.parent)]}
    async with open_family({"marker": {"tools": [own]}}) as family:
        assert log.read_text() == ""
        assert (await family.see("marker"))["tools"] == ["doomed", "own", "task"]
        assert len(log.read_text().splitlines()) == 1
        for path, success in ((granted, True), (other, False)):
            order = json.dumps({"tool": "own", "input": {"write": str(path)}})
            answer = json.loads((await family.spawn("marker", order))["output"])
            assert answer["success"] is success
    assert granted.exists() and not other.exists()


@pytest.mark.exhaustive("landlock")
@pytest.mark.parametrize("level", ["ns", "landlock"])
async def test_a_module_has_a_network_and_a_home_of_its_own_in_each_session(
    open_family: OpenAgentSession, write_module: WriteModule, level: IsolationLevel
) -> None:
    require_level(level)
    with OpenAIServer() as server:
        fetch = {
            "module": "tool-fetch",
            "source": write_module("tool-fetch", _FETCH),
            "permissions": {"net": [f"127.0.0.1:{server.port}"]},
        }
        order = json.dumps({"tool": "fetch", "input": {"url": f"{server.url}/models"}})
        async with open_family(tools=[fetch], isolation=level) as family:
            for answer in (
                await family.session.execute(order),
                (await family.spawn("helper", order))["output"],
                (await family.spawn("helper", order))["output"],
            ):
                result = json.loads(answer)
                assert result["success"], result
                assert result["output"] == [200, 1]  # the first time in this home
            again = json.loads(await family.session.execute(order))
    assert again["output"] == [200, 2]
