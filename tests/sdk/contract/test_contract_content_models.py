"""The streaming dataclasses: field order and what they show of themselves."""

from __future__ import annotations

import dataclasses
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


def test_the_types_are_strings() -> None:
    assert [(member.name, member.value) for member in ContentBlockType] == [
        ("TEXT", "text"),
        ("THINKING", "thinking"),
        ("TOOL_CALL", "tool_call"),
        ("TOOL_RESULT", "tool_result"),
    ]
    assert isinstance(ContentBlockType.TEXT, str)


@each_row(
    ("model", "type_", "own"),
    [
        (TextContent, ContentBlockType.TEXT, {"text": ""}),
        (ThinkingContent, ContentBlockType.THINKING, {"text": ""}),
        (ToolCallContent, ContentBlockType.TOOL_CALL, {"id": "", "name": "", "arguments": None}),
        (ToolResultContent, ContentBlockType.TOOL_RESULT, {"tool_call_id": "", "output": None, "error": None}),
    ],
)
def test_type_and_raw_come_before_a_class_s_own_fields(
    model: type[ContentBlock], type_: ContentBlockType, own: dict[str, Any]
) -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(model)}
    assert list(defaults) == ["type", "raw", *own]
    assert defaults == {"type": type_, "raw": None, **own}


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
