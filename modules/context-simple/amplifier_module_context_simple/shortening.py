"""Shorten the results of tools to their first characters and a note on what is missing; nothing else is touched."""

from __future__ import annotations

from typing import Any

from .blocks import as_mapping

_IMAGE_LEFT_OUT = {"type": "text", "text": "[image left out to save space]"}


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
    """Return a result, or a block of one, as short as asked; what else stands in a message as it is."""
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
    note = f"\n[shortened: {len(text) - max_chars} of {len(text)} characters left out]"
    return text if len(text) <= max_chars + len(note) else text[:max_chars] + note
