"""A session with agents, and a tool that hands work to them as those of the community do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil

from paddock import Session

LOOP = """
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

TASK = """
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
                return ToolResult(success=False, error={"message": "no one starts sub-sessions"})
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

MARK = """
    from amplifier_core import ToolResult

    class Mark:
        description = "leaves a mark"

        def __init__(self, name, config):
            self.name = name
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
        for name in config.get("names", [config.get("name", "mark")]):
            await coordinator.mount("tools", Mark(name, config))
"""

OpenAgentSession = Callable[..., Any]


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

    async def resume(self, id: str, instruction: str) -> dict[str, Any]:
        """Return what came of the tool's call of `session.resume`."""
        wishes = {"capability": "session.resume", "sub_session_id": id, "instruction": instruction}
        return await self.call("task", **wishes)

    async def refused(self, agent: str = "helper", instruction: str = "see", **wishes: Any) -> str:
        """Return why the tool's call of `session.spawn` failed."""
        answer = await self.call("task", agent_name=agent, instruction=instruction, **wishes)
        assert not answer["success"]
        return str(answer["error"]["message"])

    async def see(self, agent: str = "helper", **wishes: Any) -> dict[str, Any]:
        """Return what the orchestrator of a new sub-session sees."""
        seen: dict[str, Any] = json.loads((await self.spawn(agent, **wishes))["output"])
        return seen


def mark_entry(write_module: Callable[[str, str], str], **config: Any) -> dict[str, Any]:
    return {"module": "tool-mark", "source": write_module("tool-mark", MARK), "config": config}


def audited(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the audit log of a user whose state is in a folder below this one."""
    return [json.loads(line) for line in (folder / "state/paddock/audit.jsonl").read_text().splitlines()]


def workers() -> int:
    """Return how many processes of modules there are below this one: those behind a filter of system calls.

    The worker that is kept ready for the next module has none yet, and comes and goes at its own time.
    """
    return sum(_is_shut_in(process.pid) for process in psutil.Process().children(recursive=True))


def _is_shut_in(pid: int) -> bool:
    try:
        return "\nSeccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return False


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)
