"""Play turns of the reference modules in one process, and print what the events of these turns carry.

Arguments: the folder of the modules, a folder to work in, and by the event, as JSON, the fields that are looked for.
Prints the fields that were seen in one event of each name, and the events of a turn that do not name it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession
from amplifier_core.events import ALL_EVENTS
from amplifier_core.interfaces import ApprovalRequest, ApprovalResponse
from amplifier_core.loader import ModuleLoader

MODULES, WORK, NAMED = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
PROJECTS = sorted(path.parent.name for path in MODULES.glob("*/pyproject.toml"))
OF_A_SESSION = ("session:", "module:")  # beginnings of the events that come before the first turn and after the last
SECONDS = 200  # hit only by a hang

seen: dict[str, list[str]] = {}
unnamed: set[str] = set()


class Person:
    """Allows everything but commands."""

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        return ApprovalResponse(approved=request.tool_name != "bash", reason="no commands")


def plan_of(loop: str, context: str, *responses: Any, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "session": {"orchestrator": loop, "context": context},
        "orchestrator": {"config": settings or {}},
        "context": {"config": {"max_tokens": 400, "safety_margin": 0, "keep_recent_turns": 1}},
        "providers": [
            {
                "module": "provider-mock",
                "config": {"responses": list(responses), "context_window": 901, "max_output_tokens": 1, "deltas": True},
            }
        ],
        "tools": [{"module": one} for one in PROJECTS if one.startswith("tool-")],
        "hooks": [
            {"module": one, "config": {"path": "log.jsonl"} if one == "hooks-logging" else {}}
            for one in PROJECTS
            if one.startswith("hooks-")
        ],
        "agents": {"helper": {"description": "helps"}},
    }


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "Next.", "tool_calls": [{"name": name, "arguments": arguments}]}


async def play(plan: dict[str, Any], *prompts: str) -> None:
    """Play prompts in a session; `stop` is cancelled while the model is asked, and `fail` has a model that fails."""
    session = AmplifierSession(plan, session_id=f"s-{plan['session']['orchestrator']}")
    coordinator = session.coordinator
    coordinator.loader = ModuleLoader(coordinator)
    coordinator.register_capability("session.working_dir", str(WORK))

    async def spawn(**wanted: Any) -> dict[str, Any]:
        return {"output": "done", "session_id": wanted["sub_session_id"], "status": "success"}

    async def note(event: str, data: dict[str, Any]) -> None:
        seen[event] = max(seen.get(event, []), sorted(data.keys() & {*NAMED.get(event, ())}), key=len)
        # The kernel itself announces a cancellation once more, when the turn has ended.
        is_of_turn = not event.startswith(OF_A_SESSION) and (event != "cancel:completed" or "orchestrator" in data)
        if is_of_turn and data.get("turn_id") != f"turn of {now}":
            unnamed.add(f"{event} in {now!r}: {data.get('turn_id')!r}")
        if event == "provider:request" and now == "stop":
            await coordinator.request_cancel()
        if event == "tool:pre" and (steer := coordinator.get_capability("session.steer")) is not None:
            steer("quickly")

    for event in {*NAMED, *ALL_EVENTS}:
        coordinator.hooks.register(event, note, priority=1000)
    async with session:
        coordinator.register_capability("session.spawn", spawn)
        coordinator.get_capability("approval.register_provider")(Person())
        for now in prompts:
            coordinator.session_state["turn_id"] = f"turn of {now}"
            coordinator.session_state["goal"] = {"condition": "it is done"} if now == "go" else None
            try:
                await session.execute(now)
            except RuntimeError:
                assert now == "fail"
            coordinator.cancellation.reset()
            left = await coordinator.hooks.emit("session:resume", {})
            assert "turn_id" not in left.data and left.data["session_id"] == session.session_id


async def main() -> None:
    subprocess.run(["git", "init", "-q", str(WORK)], check=True, timeout=60)
    (WORK / "a.txt").write_text("one\n")
    streaming = plan_of(
        "loop-streaming",
        "context-simple",
        calling("read_file", file_path="a.txt"),
        calling("write_file", file_path="b.txt", content="b" * 3000),
        calling("read_file", file_path="b.txt"),
        calling("bash", command="true"),
        calling("absent"),
        calling("task", agent="helper", instruction="help"),
        "done",
        "REACHED: it is done",
        calling("read_file", file_path="a.txt"),
        {"error": {"type": "RateLimitError"}},
    )
    await play(streaming, "go", "stop", "fail")
    planned = plan_of(
        "loop-events", "context-persistent", "first read", calling("read_file", file_path="a.txt"), "done"
    )
    planned["context"]["config"]["path"] = "talk.jsonl"
    await play(planned, "go")


sys.path[:0] = [str(MODULES / one) for one in PROJECTS]
asyncio.run(asyncio.wait_for(main(), SECONDS))
print(json.dumps({"seen": seen, "unnamed": sorted(unnamed)}))
