"""Estimate how many tokens a message takes.

An estimate, because the tokenizer belongs to the provider: four bytes of UTF-8 a token, which is close for English
and code and on the safe side for most other scripts. Images count at a flat rate; their bytes are not text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_BYTES_PER_TOKEN = 4
_MESSAGE_OVERHEAD = 4  # tokens; role and delimiters
_IMAGE_TOKENS = 1_500  # what vision models charge for a picture of ordinary size


def tokens_of(message: Mapping[str, Any]) -> int:
    """Return the estimated size of a message, its tool calls included."""
    calls = message.get("tool_calls")
    # Contexts keep a call both as a block and in `tool_calls`; a provider sends it once.
    repeated = bool(calls) and any(_is(block, "tool_call") for block in _blocks(message))
    size = _MESSAGE_OVERHEAD + sum(_size(part) for part in _parts(message))
    return size + (0 if repeated or not calls else _size(calls))


def total(messages: Iterable[Mapping[str, Any]]) -> int:
    """Return the estimated size of a conversation."""
    return sum(tokens_of(message) for message in messages)


def _parts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else [content]


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in _parts(message) if isinstance(part, Mapping)]


def _is(block: Mapping[str, Any], kind: str) -> bool:
    return block.get("type") == kind


def _size(part: Any) -> int:
    if part is None:
        return 0
    if isinstance(part, Mapping) and _is(part, "image"):
        return _IMAGE_TOKENS
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False, default=str)
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)
