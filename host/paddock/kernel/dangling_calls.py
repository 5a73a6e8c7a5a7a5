"""Tool calls in a conversation that nothing answers, because the turn that made them ended first.

Providers refuse a conversation with such calls, so that it has to be put in order before it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_ANSWER: Final = "Error: the turn was interrupted before this tool call was answered"


def closing(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages that answer what is open in a conversation, to be put behind it."""
    return [
        {"role": "tool", "tool_call_id": call_id, "name": name, "content": _ANSWER}
        for call_id, name in _open(messages).items()
    ]


def _open(messages: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the name of each tool called that no later message answers, by the id of the call."""
    open_calls: dict[str, str] = {}
    for message in messages:
        if message.get("role") in ("tool", "function"):
            open_calls.pop(str(message.get("tool_call_id")), None)
            continue
        blocks = message.get("content")
        calls = [
            *(message.get("tool_calls") or ()),
            *(block for block in (blocks if isinstance(blocks, list) else ()) if _is_tool_call(block)),
        ]
        for call in calls:
            if isinstance(call, dict) and isinstance(call.get("id"), str):
                open_calls[call["id"]] = str(call.get("name") or call.get("tool") or "tool")
    return open_calls


def _is_tool_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_call"
