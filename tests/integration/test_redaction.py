"""Secrets in events of real sessions: redacted before other workers, the orchestrator and the log have them."""

from __future__ import annotations

import json
from pathlib import Path

from integration.conftest import OpenSession
from integration.probe import entry_of

_KEY = "AKIA" + "IOSFODNN7EXAMPLE"


async def test_later_hooks_and_the_emitter_get_an_event_without_secrets(
    open_session: OpenSession, tmp_path: Path
) -> None:
    hooks = [
        {"module": "hooks-logging", "config": {"path": "log.jsonl", "detail": "full"}},
        {"module": "hooks-redaction", "permissions": "isolated"},
    ]
    data = {"tool_name": "read", "result": {"output": f"{_KEY} of jane@example.org", "success": True}}
    async with open_session(hooks=hooks) as session:
        returned = await session.coordinator.hooks.emit("tool:post", data)
        await session.coordinator.hooks.emit("tool:pre", {"tool_input": {"to": "jane@example.org"}})
    assert returned.data["result"] == {"output": "[REDACTED:aws] of [REDACTED:email]", "success": True}
    log = (tmp_path / "work/log.jsonl").read_text()
    assert _KEY not in log
    lines = {entry["event"]: entry["data"] for entry in map(json.loads, log.splitlines()) if "data" in entry}
    assert lines["tool:post"]["result"]["output"] == "[REDACTED:aws] of [REDACTED:email]"
    assert lines["tool:pre"]["tool_input"] == {"to": "jane@example.org"}  # what the tool gets


async def test_no_tool_keeps_redaction_out_by_what_it_announces(open_session: OpenSession) -> None:
    """A host takes no handler for a name of 300 characters, and some thousand handlers of one module."""
    announcing = """
        async def mount(coordinator, config):
            names = ["x" * 300, *(f"event:{number}" for number in range(5000))]
            coordinator.register_contributor("observability.events", "announcing", lambda: names)
    """
    tool = entry_of("tool-announcing", announcing, permissions={})
    hook = {"module": "hooks-redaction", "permissions": "isolated"}
    async with open_session(tools=[tool], hooks=[hook]) as session:
        returned = await session.coordinator.hooks.emit("tool:post", {"result": _KEY})
    assert returned.data["result"] == "[REDACTED:aws]"
