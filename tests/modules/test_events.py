"""The events that the specifications name, with their fields, in sessions of the reference modules in one process."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from modules import shipped
from paddock_sdk.contract.events import ALL_EVENTS
from twins.published import OURS, Python

_ACT = Path(__file__).parent / "acts" / "events.py"
_SESSION = {"session_id"}
_OTHERS = _SESSION | {"turn_id"}  # of modules that play no turn
_TURN = _OTHERS | {"span_id"}
_OPERATION = _TURN | {"parent_span_id", "iteration"}
_CALL = _OPERATION | {"tool_name", "tool_input", "tool_call_id", "parallel_group_id"}
_PIECE = {"provider", "request_id", "block_type", "block_index"}
_COUNTS = {"message_count", "token_count"}

# By the event: the fields that a specification or a widely used module names for it, and those that a kernel adds.
_NAMED = {
    "session:start": _SESSION | {"parent_id", "config"},
    "session:end": _SESSION | {"stats"},
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
    "content_block:end": _OPERATION | {"block_type", "block_index", "block"},
    "tool:pre": _CALL,
    "tool:post": _CALL | {"tool_result", "result"},
    "tool:error": _CALL | {"error"},
    "tool:selecting": _OPERATION | {"tool_name", "tool_input", "available_tools"},
    "tool:selected": _OPERATION | {"tool", "source", "original_tool"},
    "llm:stream_block_start": _OPERATION | _PIECE,
    "llm:stream_block_delta": _OPERATION | _PIECE | {"sequence", "text"},
    "llm:stream_block_end": _OPERATION | _PIECE,
    "context:pre_compact": _OTHERS | _COUNTS | {"before_tokens", "before_messages", "strategy"},
    "context:post_compact": _OTHERS
    | _COUNTS
    | {"after_tokens", "after_messages", "removed_tokens", "removed_messages"},
    "artifact:read": _OTHERS | {"path"},
    "artifact:write": _OTHERS | {"path"},
    "approval:required": _OTHERS | {"tool_name", "action", "risk_level"},
    "approval:granted": _OTHERS | {"tool_name", "action", "risk_level"},
    "approval:denied": _OTHERS | {"tool_name", "action", "risk_level", "reason"},
    "task:agent_spawned": _OTHERS | {"agent", "sub_session_id"},
    "task:agent_completed": _OTHERS | {"agent", "sub_session_id", "success"},
    "cancel:requested": _TURN | {"orchestrator", "state", "turn_count"},
    "cancel:completed": _TURN | {"orchestrator", "was_immediate"},
    "orchestrator:complete": _TURN | {"orchestrator", "turn_count", "status"},
    "orchestrator:steering_injected": _OPERATION | {"content"},
    "orchestrator:goal_progress": _TURN | {"state", "reason"},
    "message.end": _TURN | {"status"},
    "error": _TURN | {"error"},
}


@pytest.mark.exhaustive("published")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_event_that_is_named_comes_with_its_fields(kernel: Python, tmp_path: Path) -> None:
    wanted = json.dumps({event: sorted(fields) for event, fields in _NAMED.items()})
    played = kernel.outcomes(str(_ACT), str(shipped.FOLDER), str(tmp_path), wanted)
    added = set() if kernel is OURS else {"config", "stats"}  # which the published kernel does not
    lacking = {event: sorted(fields - added - {*played["seen"].get(event, ())}) for event, fields in _NAMED.items()}
    assert {event: fields for event, fields in lacking.items() if fields} == {}
    assert played["unnamed"] == []


_PAGE = Path(__file__).parents[2] / "sdk/docs/events.md"


def test_the_manual_names_every_event_and_its_fields() -> None:
    text = _PAGE.read_text(encoding="utf-8")
    words = {"turn": _TURN, "operation": _OPERATION, "call": _CALL}
    documented: dict[str, set[str]] = {}
    for row in re.findall(r"^\| `.*$", text, re.MULTILINE):
        (name, _), *fields = re.findall(r"`([^`]+)`|\b(turn|operation|call)\b", row)
        documented[name] = {field for one, word in fields for field in words.get(word, {one})} - _OTHERS
    assert documented == {name: fields - _OTHERS for name, fields in _NAMED.items()}
    assert set(ALL_EVENTS) <= set(re.findall(r"`([^`]+)`", text))
