"""Content of the protocol's results, and the blocks of a tool result: one made of the other, both ways.

A tool result has blocks for text and for images. All other content becomes a text that names it: a link by its address,
audio by its kind; the text of an embedded resource follows its name. `structuredContent` is the `output`, and the text
stays beside it as `content`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_NAMED: Final = ("type", "uri", "title", "name", "description", "mimeType")  # of content without a block
_MAX_CHARACTERS: Final = 200  # of each


def result_fields(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a tool result that stand for a result of `tools/call`.

    `output` is what a model reads; `content` is there where that is not all. A failure has its text as `error.message`.
    """
    listed = result.get("content")
    blocks = [_block(item) for item in listed] if isinstance(listed, list) else []
    text = "\n".join(map(_shown, blocks))
    structured = result.get("structuredContent")
    fields: dict[str, Any] = {}
    fields["success"] = not result.get("isError")
    if structured is None:
        fields["output"] = text or None
    else:
        fields["output"] = structured
        text = text or json.dumps(structured)
    is_all = structured is None and all(block["type"] == "text" for block in blocks)
    if blocks and not is_all:
        fields["content"] = blocks
    if not fields["success"]:
        fields["error"] = {
            "type": "tool_error",
            "message": text,
        }
    return fields


def to_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the protocol's result for the fields of a tool result; an object as output is structured content.

    What is no JSON in the output becomes its text.
    """
    output = result.get("output")
    text = output
    if not isinstance(text, str):
        text = json.dumps(output, default=str)
    content = [_content(block) for block in result.get("content") or []]
    if output is not None and not content:
        content.append(_text(text))
    if not result.get("success", True):
        error = result.get("error") or {}
        said = _text(str(error.get("message") or "the tool failed"))
        if said in content:
            content.remove(said)
        content.insert(0, said)
    made = {
        "content": content,
        "isError": not result.get("success", True),
    }
    if isinstance(output, Mapping):
        made["structuredContent"] = json.loads(text, parse_constant=str)
    return made


def _block(item: object) -> dict[str, Any]:
    """Return the block for one piece of content."""
    content = item if isinstance(item, dict) else {}
    match content:
        case {"type": "text", "text": str()}:
            return _text(content["text"])
        case {"type": "image", "data": str(), "mimeType": str()}:
            source = {
                "type": "base64",
                "media_type": content["mimeType"],
                "data": content["data"],
            }
            return {"type": "image", "source": source}
        case {"type": "resource", "resource": dict()}:
            content = content["resource"] | {"type": "resource"}
    told = map(content.get, _NAMED)
    names = dict.fromkeys(
        one[:_MAX_CHARACTERS]
        for one in told
        if isinstance(one, str)  # what a server says is anything
    )
    named = ", ".join(names) or "unknown content"
    text = content.get("text")
    if isinstance(text, str):
        return _text(f"[{named}]\n{text}")
    return _text(f"[{named}: not shown]")


def _content(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content for a block of a tool result, which is a text or an image in line."""
    if block["type"] == "text":
        return _text(block["text"])
    source = block["source"]
    return {
        "type": "image",
        "data": source["data"],
        "mimeType": source["media_type"],
    }


def _shown(block: Mapping[str, Any]) -> str:
    """Return a block as text."""
    if block["type"] == "text":
        return str(block["text"])
    kind = block["source"]["media_type"]
    return f"[image, {kind[:_MAX_CHARACTERS]}]"


def _text(text: str) -> dict[str, Any]:
    """Return a block of text, which is the same as content."""
    return {
        "type": "text",
        "text": text,
    }
