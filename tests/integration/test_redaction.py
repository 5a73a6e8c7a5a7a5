"""Secrets in events of real sessions: redacted before other workers, the orchestrator and the log have them."""

from __future__ import annotations

import json
from pathlib import Path

from integration.conftest import OpenSession

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
