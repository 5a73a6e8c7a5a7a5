"""Write a conversation in the service's form, and repair sequences of tool calls that it would refuse.

Roles: `function` is written as `tool`; `developer` as `system` if the service is not OpenAI's own. Thinking is left
out, since the service takes none. Empty messages are left out. Every tool call is followed by its result: a missing
result is replaced by a notice, a misplaced one is moved, and one without a call is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amplifier_core.message_models import Message

_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_NO_RESULT = "There is no result: the call of this tool was interrupted. Call it again if its result is needed."
_NOTHING = "(no output)"
_IMAGE = "[an image, which cannot be shown here]"

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Repair:
    """The repairs: calls that were given a result, as id and tool, and ids of results that were left out."""

    calls: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()


def written(messages: Iterable[Message], *, is_openai: bool) -> tuple[list[Entry], Repair]:
    """Return the messages in the service's form, and the repairs of their tool calls."""
    entries: list[Entry] = []
    for message in messages:
        if message.role == "assistant":
            entries += _assistant(message)
        elif message.role in ("tool", "function"):
            entries += _results(message)
        else:
            role = "system" if message.role == "developer" and not is_openai else message.role
            entries += _said(message, role)
    return _mended(entries)


def _assistant(message: Message) -> list[Entry]:
    blocks = [{"type": "text", "text": message.content}] if isinstance(message.content, str) else _plain(message)
    text = "\n\n".join(str(block["text"]) for block in blocks if block.get("type") == "text" and block.get("text"))
    calls: dict[str, Entry] = {}
    for block in blocks:
        if block.get("type") in ("tool_call", "tool_use"):
            _add_call(calls, block.get("id"), block.get("name"), block.get("input"))
    for given in getattr(message, "tool_calls", None) or []:  # contexts keep them beside the content
        call = given if isinstance(given, Mapping) else given.model_dump()
        inner = call.get("function")
        function = inner if isinstance(inner, Mapping) else call
        name = function.get("name") or call.get("tool")
        _add_call(calls, call.get("id"), name, function.get("arguments", call.get("input")))
    if not text and not calls:
        return []
    entry: Entry = {"role": "assistant", "content": text or None}
    if calls:
        entry["tool_calls"] = list(calls.values())
    return [entry]


def _add_call(calls: dict[str, Entry], id: Any, name: Any, arguments: Any) -> None:
    if not isinstance(id, str) or not id or id in calls:
        return
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments if isinstance(arguments, Mapping) else {}, default=str)
    name = _NOT_OF_A_NAME.sub("_", str(name or "unknown"))[:64]
    calls[id] = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _results(message: Message) -> list[Entry]:
    """Return the results in a message of a tool: those in its blocks, or else its whole content as one."""
    blocks = _plain(message) if not isinstance(message.content, str) else []
    found = [_result(block) for block in blocks if block.get("type") == "tool_result"]
    if found:
        return found
    text = message.content if isinstance(message.content, str) else "\n\n".join(map(_shown, blocks))
    return [{"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text or _NOTHING}]


def _result(block: Mapping[str, Any]) -> Entry:
    output = block.get("output", block.get("content"))
    if isinstance(output, list) and all(isinstance(one, Mapping) and "type" in one for one in output):
        text = "\n\n".join(map(_shown, output))
    else:
        text = output if isinstance(output, str) else json.dumps(output, default=str)
    id = block.get("tool_call_id") or block.get("tool_use_id") or ""
    return {"role": "tool", "tool_call_id": id, "content": text or _NOTHING}


def _said(message: Message, role: str) -> list[Entry]:
    if isinstance(message.content, str):
        return [{"role": role, "content": message.content}] if message.content else []
    blocks = _plain(message)
    results = [_result(block) for block in blocks if block.get("type") == "tool_result"]
    parts: list[Entry] = []
    for block in blocks:
        if block.get("type") == "text" and block.get("text"):
            parts.append({"type": "text", "text": block["text"]})
        elif block.get("type") == "image":
            url = _url(block.get("source")) if role == "user" else ""
            parts.append({"type": "image_url", "image_url": {"url": url}} if url else {"type": "text", "text": _IMAGE})
    if not parts:
        return results
    if all(part["type"] == "text" for part in parts):  # a server that takes no parts takes text
        return [*results, {"role": role, "content": "\n\n".join(part["text"] for part in parts)}]
    return [*results, {"role": role, "content": parts}]


def _url(source: Any) -> str:
    if not isinstance(source, Mapping):
        return ""
    if source.get("type") == "base64" and source.get("data"):
        return f"data:{source.get('media_type') or 'image/png'};base64,{source['data']}"
    return str(source.get("url") or "")


def _shown(block: Mapping[str, Any]) -> str:
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return _IMAGE if block.get("type") == "image" else json.dumps(block, default=str)


def _plain(message: Message) -> list[dict[str, Any]]:
    return [block.model_dump() for block in message.content if not isinstance(block, str)]


def _mended(entries: Sequence[Entry]) -> tuple[list[Entry], Repair]:
    whole: list[Entry] = []
    mended: list[tuple[str, str]] = []
    used: set[int] = set()
    for index, entry in enumerate(entries):
        if entry["role"] == "tool":
            continue  # stands behind its call
        whole.append(entry)
        for call in entry.get("tool_calls", ()):
            at = _result_of(call["id"], entries, index, used)
            if at is not None:
                used.add(at)
                whole.append(entries[at])
                continue
            mended.append((call["id"], call["function"]["name"]))
            whole.append({"role": "tool", "tool_call_id": call["id"], "content": _NO_RESULT})
    dropped = (
        entry["tool_call_id"] for index, entry in enumerate(entries) if entry["role"] == "tool" and index not in used
    )
    return whole, Repair(tuple(mended), tuple(dropped))


def _result_of(id: str, entries: Sequence[Entry], after: int, used: set[int]) -> int | None:
    """Return where the result of a call is: behind it, and before another call of the same id."""
    for index in range(after + 1, len(entries)):
        entry = entries[index]
        if entry["role"] == "tool" and entry["tool_call_id"] == id and index not in used:
            return index
        if any(call["id"] == id for call in entry.get("tool_calls", ())):
            return None
    return None
