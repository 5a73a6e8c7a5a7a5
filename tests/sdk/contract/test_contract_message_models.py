"""What the envelope accepts, refuses and gives back."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from paddock_sdk.contract.message_models import (
    ChatRequest,
    ChatResponse,
    ContentBlockUnion,
    ImageBlock,
    Message,
    ReasoningBlock,
    RedactedThinkingBlock,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    ResponseFormatText,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from support.rows import each_row

_BLOCKS = [
    (TextBlock, {"type": "text", "text": "hi"}),
    (ThinkingBlock, {"type": "thinking", "thinking": "hm"}),
    (RedactedThinkingBlock, {"type": "redacted_thinking", "data": "x"}),
    (ToolCallBlock, {"type": "tool_call", "id": "1", "name": "t", "input": {}}),
    (ToolResultBlock, {"type": "tool_result", "tool_call_id": "1", "output": {"a": 1}}),
    (ImageBlock, {"type": "image", "source": {"type": "url", "url": "u"}}),
    (ReasoningBlock, {"type": "reasoning", "content": [], "summary": []}),
]


@each_row(("model", "block"), _BLOCKS)
def test_a_block_is_told_by_its_type(model: type, block: dict[str, Any]) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(ContentBlockUnion)
    assert type(adapter.validate_python(block)) is model
    message = Message.model_validate({"role": "assistant", "content": [block]})
    assert [type(held) for held in message.content] == [model]
    response = ChatResponse.model_validate({"content": [block]})
    assert [type(held) for held in response.content] == [model]


@each_row("block", [{"type": "video"}, {"text": "no type"}, "text"])
def test_a_block_of_unknown_type_is_refused(block: Any) -> None:
    with pytest.raises(ValidationError):
        Message(role="user", content=[block])
    with pytest.raises(ValidationError):
        ChatResponse(content=[block])


def test_a_message_without_content_is_refused() -> None:
    with pytest.raises(ValidationError):
        Message(role="user", content=None)  # type: ignore[arg-type]


def test_a_providers_extra_data_survives_a_round_trip() -> None:
    request = ChatRequest.model_validate(
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi", "cache": {"ttl": 5}}], "vendor_id": "m1"}
            ],
            "beta": ["x"],
        }
    )
    dumped = request.model_dump(exclude_unset=True)
    assert dumped["messages"][0]["content"][0]["cache"] == {"ttl": 5}
    assert dumped["messages"][0]["vendor_id"] == "m1"
    assert dumped["beta"] == ["x"]
    assert ChatRequest.model_validate(dumped) == request


@each_row(
    ("given", "model"),
    [
        ({"type": "text"}, ResponseFormatText),
        ({"type": "json"}, ResponseFormatJson),
        ({"type": "json_schema", "json_schema": {"type": "object"}}, ResponseFormatJsonSchema),
        ({"type": "json_schema", "schema": {"type": "object"}}, ResponseFormatJsonSchema),
    ],
)
def test_a_response_format_is_told_by_its_type(given: dict[str, Any], model: type) -> None:
    request = ChatRequest.model_validate({"messages": [], "response_format": given})
    assert type(request.response_format) is model


def test_a_json_schema_format_is_dumped_under_either_name() -> None:
    given = ResponseFormatJsonSchema(json_schema={"type": "object"})
    assert given == ResponseFormatJsonSchema(schema={"type": "object"})  # type: ignore[call-arg]
    assert given.model_dump()["json_schema"] == {"type": "object"}
    assert given.model_dump(by_alias=True)["schema"] == {"type": "object"}
