"""Read and shorten a message's blocks and tool calls, as mappings or as the contract's own objects.

Orchestrators store a reply's content as they got it; both forms are kept, and both have to be recognised. A shortened
tool result keeps its first characters, with a note about the missing ones; nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_IMAGE_LEFT_OUT = {"type": "text", "text": "[image left out to save space]"}


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """Return a block or a call as a mapping, None for anything that is neither."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None) or getattr(value, "to_dict", None)
    dumped = dump() if callable(dump) and not isinstance(value, type) else None
    return dumped if isinstance(dumped, Mapping) else None


def mappings_in(values: Any) -> list[Mapping[str, Any]]:
    """Return the blocks or calls in a list as mappings, leaving out other items; empty for anything but a list."""
    listed = values if isinstance(values, list | tuple) else ()
    return [mapping for mapping in map(as_mapping, listed) if mapping is not None]


def shortened(message: dict[str, Any], max_chars: int) -> dict[str, Any]:
    """Return a message with the results in it cut to `max_chars` characters, or the message itself if none is cut."""
    content = message.get("content")
    is_result = message.get("role") in ("tool", "function")
    if isinstance(content, list):
        blocks = [_shortened_block(block, max_chars, is_result) for block in content]
        changed = any(new is not old for new, old in zip(blocks, content, strict=True))
        return {**message, "content": blocks} if changed else message
    text = _cut(content, max_chars) if is_result else content
    return message if text is content else {**message, "content": text}


def _shortened_block(block: Any, max_chars: int, is_result: bool) -> Any:
    """Return a result, or a block of one, shortened; other parts of a message are unchanged."""
    read = as_mapping(block)
    if read is None:
        return block
    kind = read.get("type")
    if kind != "tool_result" and not is_result:
        return block
    if kind == "image":
        return dict(_IMAGE_LEFT_OUT)
    for key in ("output", "content") if kind == "tool_result" else ("text",):
        text = _cut(read.get(key), max_chars)
        if text is not read.get(key):
            return {**read, key: text}
    return block


def _cut(text: Any, max_chars: int) -> Any:
    if not isinstance(text, str):
        return text
    left = len(text) - max_chars
    note = f"\n[shortened: {left} of {len(text)} characters left out; to see more, ask for a later or smaller part]"
    return text if len(text) <= max_chars + len(note) else text[:max_chars] + note
