"""Content of the protocol's results, and the blocks of a tool result: one made of the other, both ways.

A tool result has blocks for text and for images. All other content becomes a text that names it: a link by its address,
audio by its kind and size; of an embedded resource the text itself follows its name, and one that is an image is one.
`structuredContent` is the `output`, and the text stays beside it as `content`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

__all__ = ["result_fields", "to_result"]

_SHOWN: Final = 200  # characters of a name, an address or a kind in a text that names content


def result_fields(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a tool result that stand for a result of `tools/call`, whatever a server put into it.

    `output` is what a model reads; `content` is there where that is not all. A failure has its text as `error.message`.
    """
    listed = result.get("content")
    blocks = [block for item in (listed if isinstance(listed, list) else ()) for block in _blocks(item)]
    text = "\n".join(_text(block) for block in blocks)
    structured = result.get("structuredContent")
    has_more = structured is not None or any(block["type"] != "text" for block in blocks)
    fields: dict[str, Any] = {"success": not result.get("isError")}
    fields["output"] = (text or None) if structured is None else structured
    if has_more and blocks:
        fields["content"] = blocks
    if not fields["success"]:
        fields["error"] = {"type": "tool_error", "message": text or _json(structured)}
    return fields


def to_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the protocol's result for the fields of a tool result; an object as output is structured content.

    What is no JSON in the output becomes its text.
    """
    output, error, blocks = result.get("output"), result.get("error") or {}, result.get("content")
    content = [made for block in blocks or () if (made := _content(block))]
    if not content and output is not None:
        content = [_text_content(output)]
    if not result.get("success", True):
        message = error.get("message") or "the tool failed"
        content = [_text_content(message), *(one for one in content if one.get("text") != message)]
    made = {"content": content, "isError": not result.get("success", True)}
    return (
        made | {"structuredContent": json.loads(_json(output), parse_constant=str)}
        if isinstance(output, Mapping)
        else made
    )


def _blocks(item: object) -> Iterable[dict[str, Any]]:
    """Yield the blocks for one piece of content."""
    content = item if isinstance(item, Mapping) else {}
    match content:
        case {"type": "text", "text": str(text)}:
            yield _block(text)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            yield _image(data, kind)
        case {"type": "audio", "data": str(data), "mimeType": str(kind)}:
            yield _block(f"[audio of {_size(data)}, {_shown(kind)}: it is not shown]")
        case {"type": "resource_link", "uri": str(uri)}:
            told = [content.get(key) for key in ("title", "name", "description", "mimeType")]
            words = "; ".join(dict.fromkeys(_shown(one) for one in told if isinstance(one, str) and one))
            yield _block(f"[link to {_shown(uri)}{words and f': {words}'}]")
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            yield _block(f"[{_shown(uri)}]\n{text}")
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data), "mimeType": str(kind)}} if (
            kind.startswith("image/")
        ):
            yield _block(f"[{_shown(uri)}]")
            yield _image(data, kind)
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data)}}:
            yield _block(f"[{_shown(uri)}, {_size(data)}: it is not shown]")
        case _:
            yield _block(f"[content of the kind {_shown(content.get('type'))}: it is not shown]")


def _block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(data: str, kind: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _text(block: Mapping[str, Any]) -> str:
    if block["type"] == "text":
        return str(block["text"])
    return f"[image of {_size(block['source']['data'])}, {_shown(block['source']['media_type'])}]"


def _content(block: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the content for a block of text or for an image in line; other blocks have none."""
    match block:
        case {"type": "text", "text": str(text)}:
            return _block(text)
        case {"type": "image", "source": {"media_type": str(kind), "data": str(data)}}:
            return {"type": "image", "data": data, "mimeType": kind}
    return None


def _text_content(value: object) -> dict[str, Any]:
    return _block(value if isinstance(value, str) else _json(value))


def _json(value: object) -> str:
    return json.dumps(value, default=str)


def _size(data: str) -> str:
    """Return the size of what is in base64."""
    return f"{len(data) * 3 // 4} bytes"


def _shown(value: object) -> str:
    return str(value)[:_SHOWN]
