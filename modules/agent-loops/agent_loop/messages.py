"""Translate between the contexts' dicts, the request models and the model's replies.

Nothing a reply holds is lost on its way into the conversation: blocks keep their type, thinking keeps its signature,
provider state in `metadata` is carried along. Reading is lenient, because providers subclass the response. Texts are
well formed on their way into the conversation and out of it, because no server takes half a character.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from amplifier_core.message_models import ChatRequest, ToolCall, ToolSpec
from amplifier_core.utils import redact_secrets, truncate_values

from .hook_gate import Injection
from .spans import Span

logger = logging.getLogger(__name__)

_CALLS = ("tool_call", "tool_use")  # types of blocks that call a tool
_SHOWN = 100_000  # characters of a conversation, as JSON, that hooks are shown
_SHOWN_TEXT = 10_000  # characters of one text in it


def request_for(
    messages: Iterable[Any],
    injections: Iterable[Injection],
    tools: Mapping[str, Any],
    span: Span,
    known: list[dict[str, Any]] | None = None,
) -> ChatRequest:
    """Return the request for these messages, with the injections at its end, offering the tools if there are any.

    The ids of its span are in the request's `metadata`. `known` has the messages of the request before, and gets those
    of this one: a message that comes again as it was is not looked at again.
    """
    entries = [
        dict(message) if type(message) is dict and message == before else _entry(message)
        for message, before in zip(messages, chain(known or (), repeat(None)), strict=False)
    ]
    if known is not None:
        known[:] = entries
    for injection in injections:
        text = well_formed(injection.content)
        if injection.to_last_tool_result and entries and entries[-1].get("role") == "tool":
            entries[-1] = _extended(entries[-1], text)
        else:
            entries.append({"role": injection.role, "content": text})
    specs = [
        ToolSpec(
            name=name,
            description=getattr(tool, "description", None) or None,
            parameters=_schema_of(tool),
        )
        for name, tool in tools.items()
    ]
    return ChatRequest.model_validate({"messages": entries, "tools": specs or None, "metadata": span.fields()})


def well_formed(value: Any) -> Any:
    """Return plain data with texts that every encoder takes; the value itself if it has no other.

    The halves of a character that stand side by side, as a stream delivers them, are joined; each other half becomes
    U+FFFD, the replacement character of Unicode.
    """
    if _is_well_formed(value):
        return value
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, Mapping):
        return {well_formed(key): well_formed(one) for key, one in value.items()}
    return [well_formed(one) for one in value]


def _is_well_formed(value: Any) -> bool:
    """Return whether all texts are; asked of the whole conversation for each request, so for most of it in one step."""
    if type(value) is dict:
        for key, one in value.items():
            if type(key) is not str or not key.isascii():
                return False  # most likely is: it is looked at closely where it is written anew
            if not (type(one) is str and one.isascii()) and not _is_well_formed(one):
                return False
        return True
    if isinstance(value, list):
        return all(map(_is_well_formed, value))
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return not isinstance(value, Mapping)


def assistant_message(response: Any, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return the reply as the message the context stores."""
    content = response.content
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if isinstance(content, str) else _blocks_beside(content or [], calls) or "",
    }
    if calls:
        # Providers look the tool's name up under either key.
        message["tool_calls"] = [
            {"id": call.id, "name": call.name, "tool": call.name, "arguments": call.arguments} for call in calls
        ]
    metadata = getattr(response, "metadata", None)
    if isinstance(metadata, dict) and metadata:
        message["metadata"] = metadata
    return message


def tool_message(call: ToolCall, content: str) -> dict[str, Any]:
    """Return the answer to a tool call as the message the context stores."""
    return {"role": "tool", "name": call.name, "tool_call_id": call.id, "content": content}


def text_of(response: Any) -> str:
    """Return the model's text, without its thinking."""
    whole, content = getattr(response, "text", None), response.content
    if not (isinstance(whole, str) and whole):
        blocks = [] if isinstance(content, str) else content or []
        texts = [getattr(block, "text", None) for block in blocks if getattr(block, "type", "text") == "text"]
        joined = "\n\n".join(text for text in texts if isinstance(text, str) and text)
        whole = content if isinstance(content, str) else joined
    return str(well_formed(whole))


def blocks_of(response: Any) -> list[dict[str, Any]]:
    """Return the content blocks as events show them; a provider's own streaming blocks come first."""
    streamed = getattr(response, "content_blocks", None)
    if isinstance(streamed, list) and streamed:
        return [block.to_dict() for block in streamed]
    content = response.content
    if isinstance(content, str):
        return [{"type": "text", "text": well_formed(content)}] if content else []
    return [_block(block) for block in content or []]


def tool_calls_of(provider: Any, response: Any) -> list[ToolCall]:
    """Return the tool calls the provider finds in its response, each with an id of its own."""
    parse = getattr(provider, "parse_tool_calls", None)
    found = parse(response) if callable(parse) else None
    if not isinstance(found, list | tuple):
        found = getattr(response, "tool_calls", None)
    calls: dict[str, ToolCall] = {}
    for call in found if isinstance(found, list | tuple) else ():
        id = call.id if call.id and call.id not in calls else new_call_id()
        calls[id] = call.model_copy(update={"id": id, "arguments": well_formed(call.arguments)})
    return list(calls.values())


def new_call_id() -> str:
    """Return an id for a tool call that has none of its own."""
    return f"call_{uuid.uuid4().hex[:24]}"


def shown(messages: Sequence[Any]) -> list[Any]:
    """Return the latest messages as hooks are shown them: within the bounds, without values under keys of secrets.

    A text beyond its bound is cut; earlier messages beyond that of all are left out.
    """
    kept: list[Any] = []
    room = _SHOWN
    for message in reversed(messages):
        entry = truncate_values(redact_secrets(plain(message)), _SHOWN_TEXT)
        room -= size_of([entry])
        if room < 0:
            break
        kept.append(entry)
    return kept[::-1]


def size_of(messages: Iterable[Any]) -> int:
    """Return the characters that messages take as JSON."""
    return sum(len(json.dumps(plain(message), ensure_ascii=False, default=str)) for message in messages)


def usage_of(response: Any) -> Any:
    """Return the usage as plain data, or None where the provider reports none."""
    return plain(getattr(response, "usage", None))


def plain(value: Any) -> Any:
    """Return a model as plain data, anything else as it is."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else value


def _schema_of(tool: Any) -> dict[str, Any]:
    """Return the JSON schema of a tool's input; tools of the contract's first edition have a method for it."""
    schema = getattr(tool, "input_schema", None)
    ask = getattr(tool, "get_schema", None)
    if not schema and callable(ask):
        try:
            schema = ask()
        except Exception:  # the model can still call it, and the tool then explains its input
            logger.warning("tool %s does not give its schema", getattr(tool, "name", tool), exc_info=True)
    return schema if isinstance(schema, dict) else {}


def _entry(message: Any) -> dict[str, Any]:
    entry: dict[str, Any] = dict(well_formed(plain(message)))
    if entry.get("content") is None:  # a message of tool calls only, as some contexts store it
        entry["content"] = ""
    elif not isinstance(entry["content"], str | list):
        entry["content"] = json.dumps(entry["content"], default=str)
    return entry


def _extended(entry: dict[str, Any], text: str) -> dict[str, Any]:
    content = entry["content"]
    if isinstance(content, str):
        return {**entry, "content": f"{content}\n\n{text}" if content else text}
    return {**entry, "content": [*content, {"type": "text", "text": text}]}


def _blocks_beside(content: Iterable[Any], calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Return the blocks of a reply, and of those that call a tool only the first of each call's id."""
    blocks = [_block(block) for block in content]
    left = {call.id for call in calls}
    kept = []
    for block in blocks:
        if block.get("type") in _CALLS:
            if block.get("id") not in left:
                continue
            left.discard(block["id"])
        kept.append(block)
    return kept


def _block(block: Any) -> dict[str, Any]:
    """Return a block as plain data without the optional fields it does not use; a result's output may well be None."""
    return {
        key: well_formed(value) for key, value in dict(plain(block)).items() if value is not None or key == "output"
    }
