"""Sub-sessions of a plan's agents: what they are given, how they end, and what a module cannot talk them into."""

from __future__ import annotations

import asyncio
import gc
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from integration.command_line import require_level
from integration.conftest import OpenSession, WriteModule
from paddock import PaddockError, Session
from paddock.session import shutdown as ending
from paddock.session import spawning as sub_sessions
from paddock.session.hosted_session import HostedSession
from paddock.session.module import HostedModule
from paddock_sandbox.profile import IsolationLevel
from paddock_sdk.contract.models import HookResult
from support.examples import repeating
from vendors.echoing_server import OpenAIServer

_LOOP = """
    import asyncio
    import json
    import os

    class Orders:
        \"\"\"Does what the prompt says: calls a tool, tells what it sees, waits to be cancelled, or dies.\"\"\"

        def __init__(self, config):
            self.config = config

        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            await context.add_message({"role": "user", "content": prompt})
            if prompt == "die":
                os._exit(3)
            if prompt in ("one", "number", "parts", "list"):
                return prompt
            if prompt == "fail":
                raise LookupError("no such thing")
            if prompt == "wait":
                await hooks.emit("orders:waiting", {})
                while not coordinator.cancellation.is_cancelled:
                    await asyncio.sleep(0.01)
                return "stopped"
            if prompt == "see":
                seen = {
                    "id": coordinator.session_id,
                    "parent": coordinator.parent_id,
                    "tools": sorted(tools),
                    "providers": {name: provider.config for name, provider in providers.items()},
                    "messages": [message["content"] for message in await context.get_messages()],
                    "config": coordinator.config,
                    "loop": self.config,
                    "capabilities": {
                        name: coordinator.get_capability(name)
                        for name in ("self_delegation_depth", "session.working_dir", "of.app", "of.module")
                    },
                }
                report = {"orchestrator": "orders", "turn_count": 2, "status": "success", "metadata": {"a": 1}}
                await hooks.emit("orchestrator:complete", report)
                return json.dumps(seen)
            order = json.loads(prompt)
            gate = await hooks.emit("tool:pre", {"tool_name": order["tool"], "tool_input": order["input"]})
            if gate.action == "deny":
                return json.dumps({"denied": gate.reason})
            result = await tools[order["tool"]].execute(order["input"])
            answer = json.dumps({"success": result.success, "output": result.output, "error": result.error})
            await context.add_message({"role": "assistant", "content": answer})
            return answer

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Orders(config))
"""
_TASK = """
    import asyncio
    import os
    from dataclasses import dataclass, field

    from amplifier_core import ToolResult

    @dataclass
    class ProviderPreference:
        provider: str
        model: str
        config: dict = field(default_factory=dict)

    async def appeared(path):
        while not os.path.exists(path):
            await asyncio.sleep(0.01)

    class Task:
        \"\"\"Hands work to agents as the delegating tools of the community do.\"\"\"

        name = "task"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        @property
        def description(self):
            return "agents: " + ", ".join(self.coordinator.config.get("agents", {}))

        async def execute(self, input):
            wanted = dict(input)
            until = wanted.pop("until", None)
            act = self.coordinator.get_capability(wanted.pop("capability", "session.spawn"))
            if act is None:
                return ToolResult(success=False, error={"message": "nobody starts sub-sessions"})
            if "instruction" in wanted and "agent_name" in wanted:
                wanted.setdefault("agent_configs", self.coordinator.config.get("agents"))
                if wanted.pop("own_parent", True):
                    wanted["parent_session"] = self.coordinator.session
                wanted["provider_preferences"] = [
                    ProviderPreference(**one) for one in wanted.pop("provider_preferences", [])
                ]
            try:
                asked = asyncio.ensure_future(act(**wanted))
                if until:
                    await appeared(until)
                    asked.cancel()
                return ToolResult(output=await asked)
            except asyncio.CancelledError:
                return ToolResult(success=False, error={"message": "no longer waited for"})
            except Exception as error:
                return ToolResult(success=False, error={"message": str(error), "type": type(error).__name__})

    class Doomed:
        name = "doomed"
        description = "asks for a sub-session, and dies over it"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            spawn = self.coordinator.get_capability("session.spawn")
            asked = asyncio.ensure_future(spawn(agent_name="helper", instruction="wait"))
            await appeared(input["until"])
            os._exit(4)

    async def mount(coordinator, config):
        coordinator.register_capability("of.module", "something")
        await coordinator.mount("tools", Task(coordinator))
        await coordinator.mount("tools", Doomed(coordinator))
"""
_MARK = """
    from amplifier_core import ToolResult

    class Mark:
        description = "leaves a mark"

        def __init__(self, config):
            self.name = config.get("name", "mark")
            self.config = config

        async def execute(self, input):
            if input.get("write"):
                try:
                    open(input["write"], "w").write("x")
                except OSError as error:
                    return ToolResult(success=False, error={"message": type(error).__name__})
            return ToolResult(output=self.config)

    async def mount(coordinator, config):
        if "log" in config:
            open(config["log"], "a").write(coordinator.session_id + chr(10))
        if "bye" in config:
            coordinator.register_cleanup(lambda: open(config["bye"], "a").write(coordinator.session_id + chr(10)))
        await coordinator.mount("tools", Mark(config))
"""
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
_STUBBORN = """
    import asyncio

    async def never():
        while True:
            try:
                await asyncio.sleep(1000)
            except BaseException:
                pass

    class Stubborn:
        name = "stubborn"
        description = "does not end by itself, nor when it is asked to"

        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def execute(self, input):
            await self.coordinator.hooks.emit("stubborn:here", {})
            await never()

    async def mount(coordinator, config):
        if coordinator.parent_id:
            coordinator.register_cleanup(never)
        await coordinator.mount("tools", Stubborn(coordinator))
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
_SLOW = """
    import asyncio

    class Slow:
        \"\"\"Announces that it is read, and does not answer if that is denied.\"\"\"

        def __init__(self, hooks):
            self.messages = []
            self.hooks = hooks

        async def add_message(self, message):
            self.messages.append(message)

        async def get_messages(self):
            if (await self.hooks.emit("slow:read", {})).action == "deny":
                await asyncio.Event().wait()
            return list(self.messages)

        get_messages_for_request = get_messages

        async def set_messages(self, messages):
            self.messages = list(messages)

        async def clear(self):
            self.messages = []

    async def mount(coordinator, config):
        await coordinator.mount("context", Slow(coordinator.hooks))
"""
_FETCH = """
    import os
    import urllib.request

    from amplifier_core import ToolResult

    class Fetch:
        name = "fetch"
        description = "fetches, and counts in its home how often it did"

        async def execute(self, input):
            mark = os.path.expanduser("~/mark")
            open(mark, "a").write("x")
            with urllib.request.urlopen(input["url"]) as answer:
                return ToolResult(output=[answer.status, len(open(mark).read())])

    async def mount(coordinator, config):
        await coordinator.mount("tools", Fetch())
"""
_PROVIDER = """
    class Named:
        name = "named"

        def __init__(self, config):
            self.config = config

    async def mount(coordinator, config):
        await coordinator.mount("providers", Named(config))
"""

Act = Callable[..., Any]


class Family:
    """A session with agents, and how a test speaks with its modules."""

    def __init__(self, session: Session) -> None:
        self.session = session

    async def call(self, tool: str, **input: Any) -> dict[str, Any]:
        """Return what a tool of the session answered."""
        answer: dict[str, Any] = json.loads(await self.session.execute(json.dumps({"tool": tool, "input": input})))
        return answer

    async def spawn(self, agent: str = "helper", instruction: str = "see", **wishes: Any) -> dict[str, Any]:
        """Return what the tool `task` got for its call of `session.spawn`, which has to end well."""
        answer = await self.call("task", agent_name=agent, instruction=instruction, **wishes)
        assert answer["success"], answer
        result: dict[str, Any] = answer["output"]
        return result

    async def refused(self, agent: str = "helper", instruction: str = "see", **wishes: Any) -> str:
        """Return why the tool's call of `session.spawn` failed."""
        answer = await self.call("task", agent_name=agent, instruction=instruction, **wishes)
        assert not answer["success"]
        return str(answer["error"]["message"])

    async def see(self, agent: str = "helper", **wishes: Any) -> dict[str, Any]:
        """Return what the orchestrator of a new sub-session sees."""
        seen: dict[str, Any] = json.loads((await self.spawn(agent, **wishes))["output"])
        return seen


@pytest.fixture
def open_family(open_session: OpenSession, write_module: WriteModule, tmp_path: Path) -> Callable[..., Any]:
    """Open a session with the agents `helper`, who has what the plan has, and whoever else is given."""

    @asynccontextmanager
    async def open_it(
        agents: dict[str, Any] | None = None, call: tuple[str, ...] = ("spawn",), **sections: Any
    ) -> AsyncIterator[Family]:
        task = {"module": "tool-task", "source": write_module("tool-task", _TASK)}
        task["permissions"] = {"call": [*call], "read": [str(tmp_path)]}
        async with open_session(
            orchestrator={"module": "loop-orders", "source": write_module("loop-orders", _LOOP)},
            tools=[task, *sections.pop("tools", ())],
            agents={"helper": {"description": "helps", "instruction": "be kind"}, **(agents or {})},
            **sections,
        ) as session:
            yield Family(session)

    return open_it


def _mark(write_module: WriteModule, **config: Any) -> dict[str, Any]:
    return {"module": "tool-mark", "source": write_module("tool-mark", _MARK), "config": config}


def _workers() -> int:
    """Return how many processes of modules there are below this one: those behind a filter of system calls.

    The worker that is kept ready for the next module has none yet, and comes and goes at its own time.
    """
    return sum(_is_shut_in(process.pid) for process in psutil.Process().children(recursive=True))


def _is_shut_in(pid: int) -> bool:
    try:
        return "\nSeccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return False


def _audited(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the audit log of a user whose state is in a folder below this one."""
    return [json.loads(line) for line in (folder / "state/paddock/audit.jsonl").read_text().splitlines()]


async def _until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


# -- what a sub-session is -----------------------------------------------------------------


async def test_an_agent_works_in_a_session_of_its_own_below_the_one_that_asked(
    open_family: Act, tmp_path: Path
) -> None:
    async with open_family() as family:
        heard: list[tuple[str, str, str | None]] = []

        async def hear(event: str, data: dict[str, Any]) -> None:
            heard.append((event, data["session_id"], data["parent_id"]))

        for event in ("session:fork", "session:start", "session:resume", "session:end"):
            family.session.coordinator.hooks.register(event, hear)
        family.session.coordinator.register_capability("of.app", "an application's")
        result = await family.spawn(self_delegation_depth=2, session_metadata={"why": "a test"})
        parent = family.session.session_id
        assert re.fullmatch(re.escape(parent) + "-[0-9a-f]{16}_helper", result["session_id"])
        assert (result["status"], result["turn_count"], result["metadata"]) == ("success", 2, {"a": 1})
        seen = json.loads(result["output"])
        assert (seen["id"], seen["parent"]) == (result["session_id"], parent)
        assert seen["messages"] == ["be kind", "see"]
        assert seen["capabilities"] == {
            "self_delegation_depth": 2,
            "session.working_dir": str(tmp_path / "work"),
            "of.app": "an application's",
            "of.module": "something",  # of the sub-session's own tool-task
        }
        assert seen["config"]["agents"]["helper"]["description"] == "helps"
        assert seen["config"]["session"]["metadata"] == {"why": "a test"}
        ours = [event for event in heard if event[1] != parent]
        assert ours == [
            (event, result["session_id"], parent) for event in ("session:fork", "session:start", "session:end")
        ]
        assert len(family.session.modules) == 3  # the session's own: those of the sub-session are no part of it


async def test_only_a_module_that_is_granted_to_start_sub_sessions_can(open_family: Act) -> None:
    async with open_family(call=("spawn",)) as family:
        assert (await family.spawn())["status"] == "success"
    async with open_family(call=()) as family:
        assert "may not call `spawn`" in await family.refused()
        (denial,) = family.session.modules[2].denials
        assert denial["grant"].endswith('call: ["spawn"]}')


async def test_a_session_without_agents_starts_no_others(open_session: OpenSession, write_module: WriteModule) -> None:
    task = {"module": "tool-task", "source": write_module("tool-task", _TASK), "permissions": {"call": ["spawn"]}}
    async with open_session(tools=[task]) as session:
        answer = json.loads(await session.execute('{"tool": "task", "input": {}}'))
    assert answer["error"] == {"message": "nobody starts sub-sessions"}


async def test_an_agents_own_module_starts_with_it_by_its_entry(
    open_family: Act, write_module: WriteModule, tmp_path: Path
) -> None:
    log, granted, other = tmp_path / "log", tmp_path / "here" / "granted", tmp_path / "other"
    log.touch()
    granted.parent.mkdir()
    own = _mark(write_module, log=str(log), name="own")
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


async def test_an_agents_entry_is_merged_over_the_plans_entry(open_family: Act, write_module: WriteModule) -> None:
    plans = _mark(write_module, name="mark", deep={"a": 1, "b": 2})
    over = {"module": "tool-mark", "config": {"deep": {"b": 3}}}
    async with open_family({"marker": {"tools": [over]}}, tools=[plans]) as family:
        order = json.dumps({"tool": "mark", "input": {}})
        answer = json.loads((await family.spawn("marker", order))["output"])
        assert answer["output"] == {"name": "mark", "deep": {"a": 1, "b": 3}}
        assert (await family.call("mark"))["output"]["deep"] == {"a": 1, "b": 2}


async def test_tools_are_inherited_as_wished(open_family: Act, write_module: WriteModule) -> None:
    async with open_family(tools=[_mark(write_module)]) as family:
        assert (await family.see())["tools"] == ["doomed", "mark", "task"]
        for wish in ({"exclude_tools": ["tool-mark"]}, {"inherit_tools": ["tool-task"]}, ["tool-task"]):
            assert (await family.see(tool_inheritance=wish))["tools"] == ["doomed", "task"]


async def test_a_hook_is_left_out_only_where_the_plan_allows_it(open_family: Act, write_module: WriteModule) -> None:
    guards = {
        name: {"module": f"hooks-{name}", "source": write_module(f"hooks-{name}", _GUARD), "config": {"guards": name}}
        for name in ("strict", "lax")
    }
    guards["lax"]["on_failure"] = "continue"
    marks = [{**_mark(write_module, name=name), "module": f"tool-{name}"} for name in guards]
    for mark in marks:
        mark["source"] = write_module(mark["module"], _MARK)
    async with open_family(tools=marks, hooks=[*guards.values()]) as family:
        for name, outcome in (("strict", {"denied": "guarded"}), ("lax", {"success": True})):
            order = json.dumps({"tool": name, "input": {}})
            assert json.loads(await family.session.execute(order)) == {"denied": "guarded"}
            unwanted = await family.spawn("helper", order, hook_inheritance="none")
            assert json.loads(unwanted["output"]).items() >= outcome.items()
        below = {"agent_name": "self", "instruction": '{"tool": "strict", "input": {}}', "hook_inheritance": "none"}
        order = json.dumps({"tool": "task", "input": below})
        twice = json.loads((await family.spawn("self", order, hook_inheritance="none"))["output"])
        assert json.loads(twice["output"]["output"]) == {"denied": "guarded"}


async def test_the_applications_own_hooks_hear_and_gate_sub_sessions_too(
    open_family: Act, write_module: WriteModule
) -> None:
    order = json.dumps({"tool": "mark", "input": {}})
    async with open_family(tools=[_mark(write_module)]) as family:
        assert json.loads((await family.spawn("helper", order))["output"])["success"]

        async def deny(event: str, data: dict[str, Any]) -> dict[str, Any] | None:
            return {"action": "deny", "reason": "the application"} if data["tool_name"] == "mark" else None

        family.session.coordinator.hooks.register("tool:pre", deny)
        assert json.loads((await family.spawn("helper", order))["output"]) == {"denied": "the application"}


async def test_what_the_application_told_a_guard_holds_in_sub_sessions_too(
    open_family: Act, write_module: WriteModule
) -> None:
    guard = {"module": "hooks-told", "source": write_module("hooks-told", _TOLD)}
    order = json.dumps({"tool": "mark", "input": {}})
    below = json.dumps({"tool": "task", "input": {"agent_name": "self", "instruction": order}})
    async with open_family(tools=[_mark(write_module)], hooks=[guard]) as family:
        assert json.loads((await family.spawn("helper", order))["output"])["success"]
        family.session.coordinator.session_state["guarded"] = {"mark"}
        assert json.loads((await family.spawn("helper", order))["output"]) == {"denied": "told"}
        deeper = json.loads((await family.spawn("self", below))["output"])["output"]
        assert json.loads(deeper["output"]) == {"denied": "told"}


async def test_a_sub_session_starts_others_as_deep_as_that_may_go(open_family: Act) -> None:
    async with open_family() as family:
        inner = json.dumps({"tool": "task", "input": {"agent_name": "helper", "instruction": "see"}})
        outer = await family.spawn("self", inner)
        middle = json.loads(outer["output"])["output"]
        seen = json.loads(middle["output"])
        assert seen["parent"] == outer["session_id"] and outer["session_id"].startswith(family.session.session_id)
        orders = "see"
        for _ in range(9):
            orders = json.dumps({"tool": "task", "input": {"agent_name": "self", "instruction": orders}})
        assert "nested 8 deep" in await family.session.execute(orders)


async def test_a_spawns_history_precedes_its_instruction(open_family: Act, write_module: WriteModule) -> None:
    source = write_module("provider-named", _PROVIDER)
    providers = [
        {"module": "provider-named", "source": source, "instance_id": name, "config": {"priority": 5, "at": "here"}}
        for name in ("one", "two")
    ]
    async with open_family(providers=providers) as family:
        seen = await family.see(
            parent_messages=[{"role": "user", "content": "earlier"}],
            orchestrator_config={"depth": {"x": 1}},
            provider_preferences=[
                {"provider": "three", "model": "m"},
                {"provider": "two", "model": "m-1", "config": {"temperature": 0, "at": "elsewhere"}},
            ],
        )
    assert seen["messages"] == ["earlier", "be kind", "see"]
    assert seen["loop"] == {"depth": {"x": 1}}
    assert seen["providers"] == {
        "one": {"priority": 5, "at": "here"},
        "two": {"priority": 0, "at": "here", "default_model": "m-1", "temperature": 0},
    }


async def test_a_sub_session_goes_on_where_it_was_when_resumed(open_family: Act) -> None:
    async with open_family({"a" * 600: {}}, session_id="chat 42/é") as family:
        heard: list[str] = []

        async def hear(event: str, data: dict[str, Any]) -> None:
            heard.append(data["session_id"])

        family.session.coordinator.hooks.register("session:resume", hear)
        first = await family.spawn(sub_session_id="mine")
        assert first["session_id"] == "mine"
        answer = await family.call(
            "task", capability="session.resume", sub_session_id=first["session_id"], instruction="see"
        )
        second = answer["output"]
        assert second["session_id"] == first["session_id"] and heard == [first["session_id"]]
        assert json.loads(second["output"])["messages"] == ["be kind", "see", "see"]
        for id in ("nobody", family.session.session_id):
            refused = await family.call("task", capability="session.resume", sub_session_id=id, instruction="see")
            assert "to go on with" in refused["error"]["message"]
        assert "there is a session `mine` already" in await family.refused(sub_session_id="mine")
        made = await family.spawn("a" * 600)
        again = await family.call(
            "task", capability="session.resume", sub_session_id=made["session_id"], instruction="see"
        )
        assert again["success"], again["error"]


@pytest.mark.parametrize("level", ["ns", "landlock"])
async def test_a_module_has_a_network_and_a_home_of_its_own_in_each_session(
    open_family: Act, write_module: WriteModule, level: IsolationLevel
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


# -- what a module cannot talk the host into -----------------------------------------------


async def test_what_a_module_says_adds_nothing_to_what_the_plan_says_of_agents(
    open_family: Act, write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    smuggled = {
        "tools": [_mark(write_module) | {"permissions": {"write": ["/"]}}],
        "session": {"orchestrator": {"module": "loop-mark", "source": write_module("loop-mark", _MARK)}},
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
    ({"sub_session_id": "x" * 600}, "sub_session_id begins with"),
    ({"tool_inheritance": {"exclude": ["tool-task"]}}, "exclude_tools"),
    ({"hook_inheritance": 7}, "hooks is a list"),
    ({"parent_messages": "earlier"}, "parent_messages is a list"),
    ({"orchestrator_config": [1]}, "orchestrator_config is a table"),
    ({"self_delegation_depth": -1}, "self_delegation_depth"),
    ({"own_parent": False, "parent_session": "another"}, "parent_session is the session that asks"),
    ({"parent_messages": [{"content": [[]] * 900} for _ in range(100)]}, "more than 4 MiB of memory"),
    ({"orchestrator_config": {"x": _MUCH}, "session_metadata": {"y": _MUCH}}, "more than 4 MiB of memory"),
]


async def test_a_request_that_is_none_is_refused_before_anything_starts(
    open_family: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with open_family() as family:
        for wishes, said in _NO_REQUESTS:
            assert said in await family.refused(**wishes)
        assert "there is a session" in await family.refused(sub_session_id=family.session.session_id)
        events = [line["event"] for line in _audited(tmp_path)]
        assert events.count("module.started") == 3 and "sub_session.started" not in events
        known = await family.see(orchestrator_config={"x": _MUCH}, parent_messages=[_EARLIER])
        assert known["loop"] == {"x": _MUCH} and known["messages"][0] == "earlier"


async def test_what_is_passed_on_is_bounded_over_all_sessions_of_a_line(open_family: Act) -> None:
    def order(config: object) -> str:
        wishes = {"agent_name": "self", "instruction": "see", "orchestrator_config": {"y": config}}
        return json.dumps({"tool": "task", "input": wishes})

    async with open_family() as family:
        for config, success in (("a little", True), (_MUCH, False)):
            answer = await family.spawn("self", order(config), orchestrator_config={"x": _MUCH})
            inner = json.loads(answer["output"])
            assert inner["success"] is success
        assert "with what the sessions above it were given" in inner["error"]["message"]


async def test_a_context_that_holds_what_no_message_is_fails_nothing(
    open_family: Act, write_module: WriteModule
) -> None:
    odd = {"session": {"context": {"module": "context-odd", "source": write_module("context-odd", _ODD)}}}
    async with open_family({"odd": odd}) as family:
        for said in ("one", "number", "parts", "list"):
            result = await family.spawn("odd", said, sub_session_id=said)
            assert result["status"] == "success"
            wishes = {"capability": "session.resume", "sub_session_id": said, "instruction": "list"}
            again = await family.call("task", **wishes)
            assert again["success"] is (said != "parts"), again  # there an object is in a message, and goes with it


# -- how it ends ---------------------------------------------------------------------------


async def test_cancelling_the_session_reaches_its_sub_sessions(open_family: Act) -> None:
    async with open_family() as family:

        async def cancel(event: str, data: dict[str, Any]) -> None:
            family.session.cancel()

        family.session.coordinator.hooks.register("orders:waiting", cancel)
        result = await family.spawn("helper", "wait")
        assert (result["output"], result["status"]) == ("stopped", "cancelled")


async def test_a_caller_that_waits_no_longer_or_dies_ends_the_sub_session(open_family: Act, tmp_path: Path) -> None:
    mark = tmp_path / "waiting"
    async with open_family() as family:

        async def hear(event: str, data: dict[str, Any]) -> None:
            mark.touch()

        family.session.coordinator.hooks.register("orders:waiting", hear)
        await family.spawn()
        before = _workers()
        assert await family.refused("helper", "wait", until=str(mark)) == "no longer waited for"
        await _until(lambda: _workers() == before)
        mark.unlink()
        answer = await family.call("doomed", until=str(mark))
        assert answer["error"]["type"] == "ModuleDiedError"
        await _until(lambda: _workers() < before)  # those of the sub-session, and of the tool
        assert (await family.spawn())["status"] == "success"


async def test_leaving_the_session_ends_what_runs_below_it(open_family: Act) -> None:
    outcome: list[str] = []
    others = set(psutil.Process().children(recursive=True))
    with anyio.fail_after(60):
        async with open_family() as family, anyio.create_task_group() as turns:
            waiting = anyio.Event()

            async def hear(event: str, data: dict[str, Any]) -> None:
                waiting.set()

            async def turn() -> None:
                try:
                    outcome.append(await family.refused("helper", "wait"))
                except (PaddockError, RuntimeError) as error:  # whoever heard of the end first tells it
                    outcome.append(str(error))

            family.session.coordinator.hooks.register("orders:waiting", hear)
            turns.start_soon(turn)
            await waiting.wait()
            await family.session.cleanup()
    assert len(outcome) == 1
    assert not set(psutil.Process().children(recursive=True)) - others


async def test_a_turn_cancelled_while_its_messages_are_read_can_be_resumed(
    open_family: Act, write_module: WriteModule
) -> None:
    slow = {"session": {"context": {"module": "context-slow", "source": write_module("context-slow", _SLOW)}}}
    async with open_family({"slow": slow}) as family:
        session = family.session
        turns: list[asyncio.Task[Any]] = []

        async def give_up(event: str, data: dict[str, Any]) -> HookResult:
            if not turns:
                return HookResult()
            turns.pop().cancel()
            return HookResult(action="deny")

        session.coordinator.hooks.register("slow:read", give_up)
        spawn, resume = map(session.coordinator.get_capability, ("session.spawn", "session.resume"))
        for instruction in ("one", "fail"):
            turn = asyncio.ensure_future(spawn("slow", instruction, sub_session_id=instruction))
            turns.append(turn)
            with pytest.raises(asyncio.CancelledError):
                await turn
            again = await resume(instruction, "see")
            assert json.loads(again["output"])["messages"] == [instruction, "see"]


@pytest.mark.parametrize("stage", ("ending", *repeating("announced")))
async def test_a_turn_that_is_cancelled_when_it_is_over_still_ends_in_order(
    stage: str, open_family: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    say_goodbye = HostedModule._goodbye
    async with open_family() as family:
        session = family.session

        async def give_up() -> None:
            asked.cancel()
            for _ in range(20):  # turns of the loop, in which it reaches the sub-session
                await asyncio.sleep(0)

        async def hear_first(event: str, data: dict[str, Any]) -> None:
            heard.append("first")
            if stage == "announced" and not asked.cancelling():
                await give_up()

        async def hear_last(event: str, data: dict[str, Any]) -> None:
            heard.append("last")

        async def goodbye(module: HostedModule) -> None:
            await say_goodbye(module)
            if stage == "ending" and module.kind == "orchestrator" and not asked.cancelling():
                await give_up()

        spawn = session.coordinator.get_capability("session.spawn")
        await spawn("helper", "one")
        session.coordinator.hooks.register("session:end", hear_first, priority=-1)
        session.coordinator.hooks.register("session:end", hear_last, priority=1000)
        before = _workers()
        monkeypatch.setattr(HostedModule, "_goodbye", goodbye)
        asked = asyncio.ensure_future(spawn("helper", "one"))
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert heard == ["first", "last"]
        assert _workers() == before


async def test_stubborn_sub_sessions_share_one_deadline(
    open_family: Act, write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sub_sessions, "_ENDING_SECONDS", 0.5)
    monkeypatch.setattr(ending, "_HURRIED", 100.0)
    started, bye = tmp_path / "started", tmp_path / "bye"
    stubborn = {"module": "tool-stubborn", "source": write_module("tool-stubborn", _STUBBORN)}
    mark = _mark(write_module, log=str(started), bye=str(bye))
    orders = json.dumps({"tool": "stubborn", "input": {}})
    for _ in range(3):
        orders = json.dumps({"tool": "task", "input": {"agent_name": "self", "instruction": orders}})
    async with open_family(tools=[stubborn, mark]) as family, anyio.create_task_group() as turns:

        async def turn() -> None:
            with suppress(PaddockError, RuntimeError):  # whoever heard of the end first tells it
                await family.session.execute(orders)

        async def hear(event: str, data: dict[str, Any]) -> None:
            deepest.set()

        deepest = anyio.Event()
        family.session.coordinator.hooks.register("stubborn:here", hear)
        turns.start_soon(turn)
        await deepest.wait()
        with anyio.fail_after(60):  # each of the three takes more than that by itself
            await family.session.cleanup()
    assert len(bye.read_text().splitlines()) == 4
    assert sorted(bye.read_text().splitlines()) == sorted(started.read_text().splitlines())


async def test_a_module_that_outstays_its_sub_session_costs_others_nothing(
    open_family: Act, write_module: WriteModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "_HURRIED", 0.5)
    started, bye = tmp_path / "started", tmp_path / "bye"
    stubborn = {"module": "tool-stubborn", "source": write_module("tool-stubborn", _STUBBORN)}
    # Cleaned up last, as the first that is mounted.
    tools = [_mark(write_module, log=str(started), bye=str(bye)), stubborn]
    async with open_family(tools=tools) as family, anyio.create_task_group() as turns:
        waiting = anyio.Event()

        async def hear(event: str, data: dict[str, Any]) -> None:
            waiting.set()

        async def turn() -> None:
            with suppress(PaddockError, RuntimeError):  # whoever heard of the end first tells it
                await family.spawn("helper", json.dumps({"tool": "stubborn", "input": {}}))

        family.session.coordinator.hooks.register("stubborn:here", hear)
        turns.start_soon(turn)
        await waiting.wait()
        turns.cancel_scope.cancel()
    assert sorted(bye.read_text().splitlines()) == sorted(started.read_text().splitlines())
    assert len(bye.read_text().splitlines()) == 2


async def test_a_failed_sub_session_is_an_error_and_can_be_resumed(open_family: Act) -> None:
    async with open_family() as family:
        for instruction, said in (("die", "loop-orders"), ("fail", "no such thing")):
            assert said in await family.refused("helper", instruction, sub_session_id=instruction)
            wishes = {"capability": "session.resume", "sub_session_id": instruction, "instruction": "see"}
            answer = await family.call("task", **wishes)
            assert json.loads(answer["output"]["output"])["messages"] == ["be kind", instruction, "see"]


async def test_a_sub_session_leaves_only_its_words_and_audit_lines(
    open_family: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def hosted() -> int:
        gc.collect()
        return sum(isinstance(one, HostedSession) for one in gc.get_objects())

    async with open_family() as family:
        before = hosted()
        result = await family.spawn()
        assert hosted() == before  # nothing is left of it in memory but what was said
        id = family.session.session_id
    ours = [
        line for line in _audited(tmp_path) if line["session"] == id and line.get("sub_session") == result["session_id"]
    ]
    events = [line["event"] for line in ours]
    assert events[0] == "sub_session.started" and events[-1] == "sub_session.ended"
    assert {line["module"] for line in ours if line["event"] == "module.started"} == {
        "loop-orders",
        "context-simple",
        "tool-task",
    }
    assert ours[0]["agent"] == "helper" and ours[0]["parent"] == id


_READ = """
    from amplifier_core import ToolResult

    class Read:
        name = "read"
        description = "reads a file"

        async def execute(self, input):
            try:
                return ToolResult(output=open(input["path"]).read())
            except OSError as error:
                return ToolResult(output=error.strerror)

    async def mount(coordinator, config):
        await coordinator.mount("tools", Read())
"""


async def test_a_path_leads_a_sub_session_where_it_led_the_session(
    open_family: Act, write_module: WriteModule, tmp_path: Path, level: IsolationLevel
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
