"""The events that the specifications name, with their fields, in sessions of the reference modules in one process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from amplifier_core import AmplifierSession
from amplifier_core.interfaces import ApprovalRequest, ApprovalResponse
from amplifier_core.loader import ModuleLoader

from modules import shipped

_SESSION = {"session_id"}
_TURN = _SESSION | {"turn_id", "span_id"}
_OPERATION = _TURN | {"parent_span_id", "iteration"}
_CALL = _OPERATION | {"tool_name", "tool_input", "tool_call_id", "parallel_group_id"}
_COUNTS = {"message_count", "token_count"}

# By the event: the fields that a specification or a widely used module names for it.
_NAMED = {
    "session:start": _SESSION | {"parent_id"},
    "session:end": _SESSION,
    "prompt:submit": _TURN | {"prompt"},
    "prompt:complete": _TURN | {"response_preview", "length"},
    "execution:start": _TURN | {"prompt"},
    "execution:end": _TURN | {"response", "status"},
    "plan:start": _TURN | {"parent_span_id", "prompt", "tools"},
    "plan:end": _TURN | {"parent_span_id", "plan", "source"},
    "provider:request": _OPERATION | {"provider", "messages", "model"},
    "provider:response": _OPERATION | {"provider", "response", "usage", "tool_calls"},
    "provider:error": _OPERATION | {"provider", "error", "retryable", "status_code"},
    "content_block:start": _OPERATION | {"block_type", "block_index"},
    "content_block:delta": _OPERATION | {"block_type", "block_index", "delta"},
    "content_block:end": _OPERATION | {"block_type", "block_index", "block"},
    "tool:pre": _CALL,
    "tool:post": _CALL | {"tool_result", "result"},
    "tool:error": _CALL | {"error"},
    "tool:selecting": _OPERATION | {"tool_name", "tool_input", "available_tools"},
    "tool:selected": _OPERATION | {"tool", "source", "original_tool"},
    "context:pre_compact": _SESSION | _COUNTS | {"before_tokens", "before_messages", "strategy"},
    "context:post_compact": _SESSION
    | _COUNTS
    | {"after_tokens", "after_messages", "removed_tokens", "removed_messages"},
    "artifact:read": _SESSION | {"path"},
    "artifact:write": _SESSION | {"path"},
    "approval:required": _SESSION | {"tool_name", "action", "risk_level"},
    "approval:granted": _SESSION | {"tool_name", "action", "risk_level"},
    "approval:denied": _SESSION | {"tool_name", "action", "risk_level", "reason"},
    "task:agent_spawned": _SESSION | {"agent", "sub_session_id"},
    "task:agent_completed": _SESSION | {"agent", "sub_session_id", "success"},
    "cancel:requested": _TURN | {"orchestrator", "state", "turn_count"},
    "cancel:completed": _TURN | {"orchestrator", "was_immediate"},
    "orchestrator:complete": _TURN | {"orchestrator", "turn_count", "status"},
    "orchestrator:steering_injected": _OPERATION | {"content"},
    "orchestrator:goal_progress": _TURN | {"state", "reason"},
    "message.end": _TURN | {"status"},
    "error": _TURN | {"error"},
}


class Person:
    """Allows everything but commands."""

    async def request_approval(self, request: ApprovalRequest) -> ApprovalResponse:
        return ApprovalResponse(approved=request.tool_name != "bash", reason="no commands")


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*(str(shipped.FOLDER / module_id) for module_id in shipped.IDS), *sys.path])


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=60)
    (tmp_path / "a.txt").write_text("one\n")
    yield tmp_path


def _plan(loop: str, context: str, *responses: Any, settings: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "session": {"orchestrator": loop, "context": context},
        "orchestrator": {"config": {"show_messages": True, **(settings or {})}},
        "context": {"config": {"max_tokens": 400, "safety_margin": 0, "keep_recent_turns": 1}},
        "providers": [
            {
                "module": "provider-mock",
                "config": {"responses": list(responses), "context_window": 901, "max_output_tokens": 1},
            }
        ],
        "tools": [{"module": one} for one in shipped.IDS if one.startswith("tool-")],
        "hooks": [
            {"module": one, "config": {"path": "log.jsonl"} if one == "hooks-logging" else {}}
            for one in shipped.IDS
            if one.startswith("hooks-")
        ],
        "agents": {"helper": {"description": "helps"}},
    }


def _calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "Next.", "tool_calls": [{"name": name, "arguments": arguments}]}


async def _play(plan: dict[str, Any], work: Path, seen: dict[str, set[str]], *prompts: str) -> None:
    """Play prompts in a session; `stop` is cancelled while the model is asked, and `fail` has a model that fails."""
    session = AmplifierSession(plan, session_id=f"s-{plan['session']['orchestrator']}")
    coordinator = session.coordinator
    coordinator.loader = ModuleLoader(coordinator)
    coordinator.register_capability("session.working_dir", str(work))

    async def spawn(**wanted: Any) -> dict[str, Any]:
        return {"output": "done", "session_id": wanted["sub_session_id"], "status": "success"}

    async def note(event: str, data: dict[str, Any]) -> None:
        fields = data.keys() & _NAMED[event]
        seen[event] = max(seen.get(event, set()), fields, key=len)
        if event == "provider:request" and now == "stop":
            await coordinator.request_cancel()
        if event == "tool:pre" and (steer := coordinator.get_capability("session.steer")) is not None:
            steer("quickly")

    for event in _NAMED:
        coordinator.hooks.register(event, note, priority=1000)
    with anyio.fail_after(120):
        async with session:
            coordinator.register_capability("session.spawn", spawn)
            coordinator.get_capability("approval.register_provider")(Person())
            for now in prompts:
                coordinator.session_state["goal"] = {"condition": "it is done"} if now == "go" else None
                try:
                    await session.execute(now)
                except RuntimeError:
                    assert now == "fail"
                coordinator.cancellation.reset()


async def test_every_event_that_is_named_comes_with_its_fields(work: Path) -> None:
    seen: dict[str, set[str]] = {}
    streaming = _plan(
        "loop-streaming",
        "context-simple",
        _calling("read_file", file_path="a.txt"),
        _calling("write_file", file_path="b.txt", content="b" * 3000),
        _calling("read_file", file_path="b.txt"),
        _calling("bash", command="true"),
        _calling("absent"),
        _calling("task", agent="helper", instruction="help"),
        "done",
        "REACHED: it is done",
        _calling("read_file", file_path="a.txt"),
        {"error": {"type": "RateLimitError"}},
    )
    await _play(streaming, work, seen, "go", "stop", "fail")
    planned = _plan("loop-events", "context-persistent", "first read", _calling("read_file", file_path="a.txt"), "done")
    planned["context"]["config"]["path"] = "talk.jsonl"
    await _play(planned, work, seen, "go")
    lacking = {event: sorted(fields - seen.get(event, set())) for event, fields in _NAMED.items()}
    assert {event: fields for event, fields in lacking.items() if fields} == {}
