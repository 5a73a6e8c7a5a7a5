"""State that several modules write, what goes along with a tool's call, cleanups in one order, and work left behind."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from integration.conftest import OpenSession
from integration.probe import entry_of, probe, probed

_REQUIRER = """
    class Requirer:
        def __init__(self, coordinator):
            self.coordinator = coordinator

        async def add(self, name):
            state = self.coordinator.session_state
            state["required"].add(name)
            state["progress"]["turns"]["used"] += 1
            state["progress"]["seen"].append(name)
            self.coordinator.todo_state.append({"content": name})
            self.coordinator.todo_index[name] = {"at": len(self.coordinator.todo_state)}

        async def state(self):
            return self.coordinator.session_state

    async def mount(coordinator, config):
        coordinator.todo_state = []
        coordinator.todo_index = {}
        coordinator.register_capability("requirer", Requirer(coordinator))
"""


async def test_any_module_changes_shared_containers_in_place(open_session: OpenSession) -> None:
    body = """
requirer = coordinator.get_capability("requirer")
state = coordinator.session_state
state["progress"] = {"turns": {"used": 0, "max": 3}, "seen": []}
await requirer.add("bash")
state["required"].add("web")
state["progress"]["turns"]["max"] = 5
coordinator.todo_state[0]["status"] = "done"
await requirer.add("git")
theirs = await requirer.state()
return ToolResult(output={
    "same": theirs == state,
    "required": sorted(state["required"]),
    "progress": state["progress"],
    "todo": coordinator.todo_state,
    "index": coordinator.todo_index,
})
"""
    async with open_session(
        tools=[probe(body, replaces="required")],  # which is the application's
        hooks=[entry_of("hooks-requirer", _REQUIRER)],
    ) as session:
        session.coordinator.session_state["required"] = {"write_file"}
        output = await probed(session)
        assert session.coordinator.session_state["required"] == {"write_file", "bash", "web", "git"}
    assert output == {
        "same": True,
        "required": ["bash", "git", "web", "write_file"],
        "progress": {"turns": {"used": 2, "max": 5}, "seen": ["bash", "git"]},
        "todo": [{"content": "bash", "status": "done"}, {"content": "git"}],
        "index": {"bash": {"at": 1}, "git": {"at": 2}},
    }


_DISPATCHING_LOOP = """
    import asyncio
    import json

    class Dispatching:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **kwargs):
            if not hasattr(coordinator, "_tool_dispatch_contexts"):
                coordinator._tool_dispatch_contexts = {}

            async def run(call_id):
                coordinator._tool_dispatch_contexts[asyncio.current_task()] = {
                    "tool_call_id": call_id, "parallel_group_id": "g1",
                }
                try:
                    return (await tools["probe"].execute({"id": call_id})).output
                finally:
                    coordinator._tool_dispatch_contexts.pop(asyncio.current_task())

            found = await asyncio.gather(run("one"), run("two"), run("three"))
            found.append((await tools["probe"].execute({"id": "none"})).output)
            return json.dumps([found, len(coordinator._tool_dispatch_contexts)])

    async def mount(coordinator, config):
        await coordinator.mount("orchestrator", Dispatching())
"""


async def test_a_tool_finds_the_orchestrators_note_for_its_call(open_session: OpenSession) -> None:
    lines: list[str] = []
    body = """
await coordinator.hooks.emit("nothing:heard", {})
await asyncio.sleep(0)
contexts = getattr(coordinator, "_tool_dispatch_contexts", {})
return ToolResult(output=[input["id"], contexts.get(asyncio.current_task())])
"""
    async with open_session(
        orchestrator=entry_of("loop-dispatching", _DISPATCHING_LOOP),
        tools=[probe(body)],
        on_output=lambda name, line: lines.append(line.text),
    ) as session:
        for _ in range(2):
            found, left = json.loads(await session.execute("x"))
            assert found == [
                *([id, {"tool_call_id": id, "parallel_group_id": "g1"}] for id in ("one", "two", "three")),
                ["none", None],
            ]
            assert left == 0
    assert lines == []


_ENDING = """
    from pathlib import Path

    async def mount(coordinator, config):
        log = Path(config["log"])
        name = config["name"]

        async def first():
            heard = await coordinator.hooks.emit("module:ending", {"name": name})
            with log.open("a") as file:
                file.write(f"{name} first {heard.action}\\n")

        def second():
            with log.open("a") as file:
                file.write(f"{name} second\\n")
            raise ValueError("no matter")

        coordinator.register_cleanup(first)
        coordinator.register_cleanup(None)
        coordinator.hooks.register("tool:post", lambda event, data: None, name=name)
        return second
"""

_UNREGISTERING = """
    async def mount(coordinator, config):
        async def on_ending(event, data):
            coordinator.heard_of_endings = [*getattr(coordinator, "heard_of_endings", []), data["name"]]

        return coordinator.hooks.register("module:ending", on_ending, name="listener")
"""


async def test_cleanups_run_in_reverse_order_and_may_emit(open_session: OpenSession, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hooks = [entry_of(f"hooks-{name}", _ENDING, config={"name": name, "log": str(log)}) for name in ("a", "b")]
    hooks.insert(1, entry_of("hooks-listener", _UNREGISTERING))
    async with open_session(hooks=hooks) as session:
        coordinator: Any = session.coordinator
        assert coordinator.hooks.list_handlers("module:ending") == {"module:ending": ["listener"]}
    assert log.read_text().splitlines() == ["b second", "b first continue", "a second", "a first continue"]
    assert coordinator.hooks.list_handlers("module:ending") == {"module:ending": []}
    assert coordinator.heard_of_endings == ["b"], "the listener's own end came between the two"


_LATER = """
    import asyncio

    tasks = []

    async def mount(coordinator, config):
        async def on_event(event, data):
            async def work():
                await asyncio.sleep(0)
                await coordinator.hooks.emit("background:done", {"after": data["prompt"]})
                coordinator.background_result = await coordinator.get_capability("notebook").note("from behind")

            tasks.append(asyncio.create_task(work()))

        coordinator.hooks.register("prompt:submit", on_event, name="later")
"""


async def test_a_task_that_outlives_its_handler_goes_on_emitting_and_calling(open_session: OpenSession) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    class Notebook:
        async def note(self, text: str) -> str:
            done.set_result(text)
            return text.upper()

    heard: list[Any] = []
    async with open_session(hooks=[entry_of("hooks-later", _LATER)]) as session:
        session.coordinator.register_capability("notebook", Notebook())
        session.coordinator.hooks.register("background:done", lambda event, data: heard.append(data["after"]))
        await session.coordinator.hooks.emit("prompt:submit", {"prompt": "hello"})
        assert await done == "from behind"
        coordinator: Any = session.coordinator
        while not hasattr(coordinator, "background_result"):
            await asyncio.sleep(0)
        assert coordinator.background_result == "FROM BEHIND"
    assert heard == ["hello"]


_BLOCKING = """
    import os
    import time

    async def mount(coordinator, config):
        def on_event(event, data):
            # As a blocking subprocess or a slow file system would: nothing else runs in this process meanwhile.
            while not os.path.exists(data["until"]):
                time.sleep(0.001)

        coordinator.hooks.register("slow:event", on_event, name="blocking")
"""


async def test_a_handler_that_blocks_its_process_delays_no_other_module(
    open_session: OpenSession, tmp_path: Path
) -> None:
    body = """
slow = asyncio.create_task(coordinator.hooks.emit("slow:event", {"until": input["until"]}))
for number in range(20):
    await coordinator.hooks.emit("fast:event", {"number": number})
    coordinator.register_capability("counted", number)
was_done = slow.done()
open(input["until"], "w").close()
await slow
return ToolResult(output=was_done)
"""
    heard: list[int] = []
    async with open_session(tools=[probe(body)], hooks=[entry_of("hooks-blocking", _BLOCKING)]) as session:
        session.coordinator.hooks.register("fast:event", lambda event, data: heard.append(data["number"]))
        assert await probed(session, until=str(tmp_path / "now")) is False
    assert heard == list(range(20))
