"""Tool calls in a conversation that nothing answers, because the turn that made them ended first.

Providers refuse a conversation with such calls, so that it has to be put in order before it goes on. What a context
says it holds may be anything: whatever is no table, nor a list of them, is passed over and never asked for anything.
"""

from __future__ import annotations

from typing import Any, Final

_ANSWER: Final = "Error: the turn was interrupted before this tool call was answered"


def tables(value: object) -> list[dict[str, Any]]:
    """Return what is a table of what should be a list of them."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, (list, tuple)) else []


def closing_messages(messages: object) -> list[dict[str, Any]]:
    """Return the messages that answer what is open in a conversation, to be put behind it."""
    return [
        {"role": "tool", "tool_call_id": call_id, "name": name, "content": _ANSWER}
        for call_id, name in _open(messages).items()
    ]


def _open(messages: object) -> dict[str, str]:
    """Return the name of each tool called that no later message answers, by the id of the call."""
    open_calls: dict[str, str] = {}
    for message in tables(messages):
        if _text(message, "role") in ("tool", "function"):
            open_calls.pop(_text(message, "tool_call_id"), None)
            continue
        blocks = [block for block in tables(message.get("content")) if _text(block, "type") == "tool_call"]
        for call in (*tables(message.get("tool_calls")), *blocks):
            if isinstance(call.get("id"), str):
                open_calls[call["id"]] = _text(call, "name") or _text(call, "tool") or "tool"
    return open_calls


def _text(table: dict[str, Any], key: str) -> str:
    """Return the text that a table has under a key, empty if it has something else there or nothing."""
    value = table.get(key)
    return value if isinstance(value, str) else ""
