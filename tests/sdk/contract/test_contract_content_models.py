"""The streaming dataclasses: field order and what they show of themselves."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_sdk.contract.content_models import (
    ContentBlock,
    ContentBlockType,
    TextContent,
    ThinkingContent,
    ToolCallContent,
    ToolResultContent,
)
from support.rows import each_row


def test_the_base_needs_a_type() -> None:
    with pytest.raises(TypeError):
        ContentBlock()  # type: ignore[call-arg]


@each_row(
    ("content", "shown"),
    [
        (ContentBlock(ContentBlockType.TEXT, "sdk object"), {"type": "text"}),
        (TextContent(text="hi", raw="sdk object"), {"type": "text", "text": "hi"}),
        (TextContent(ContentBlockType.TEXT, None, "hi"), {"type": "text", "text": "hi"}),
        (ThinkingContent(text="hm"), {"type": "thinking", "text": "hm"}),
        (
            ToolCallContent(id="1", name="t", arguments={"a": 1}),
            {"type": "tool_call", "id": "1", "name": "t", "arguments": {"a": 1}},
        ),
        (
            ToolResultContent(tool_call_id="1", output="x"),
            {"type": "tool_result", "tool_call_id": "1", "output": "x"},
        ),
        (
            ToolResultContent(tool_call_id="1", error=""),
            {"type": "tool_result", "tool_call_id": "1", "output": None},
        ),
        (
            ToolResultContent(tool_call_id="1", error="no"),
            {"type": "tool_result", "tool_call_id": "1", "output": None, "error": "no"},
        ),
    ],
)
def test_content_shows_its_own_fields_and_never_raw(content: ContentBlock, shown: dict[str, Any]) -> None:
    assert content.to_dict() == shown
