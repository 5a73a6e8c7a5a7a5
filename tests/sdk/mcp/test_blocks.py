"""Content of the protocol and blocks of tool results, both ways; the official SDK reads what is made for a client."""

from __future__ import annotations

import json
from typing import Any

from mcp_types import CallToolResult

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.mcp.blocks import result_fields, to_result
from support.rows import each_row

_PNG = "aGVsbG8="
_LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "title": "A", "mimeType": "text/plain"}
_TEXTS: dict[str, tuple[object, str]] = {
    "text": ({"type": "text", "text": "hello"}, "hello"),
    "audio": ({"type": "audio", "data": _PNG, "mimeType": "audio/wav"}, "[audio, audio/wav: not shown]"),
    "a link": (_LINK, "[resource_link, file:///a, A, a, text/plain: not shown]"),
    "a text that is embedded": (
        {"type": "resource", "resource": {"uri": "x:y", "text": "in it"}},
        "[resource, x:y]\nin it",
    ),
    "bytes": ({"type": "resource", "resource": {"uri": "x:y", "blob": _PNG}}, "[resource, x:y: not shown]"),
    "a kind to come": ({"type": "scent" * 90}, f"[{'scent' * 40}: not shown]"),
    "a text that is none": ({"type": "text", "text": 1}, "[text: not shown]"),
    "nothing of the protocol": (7, "[unknown content: not shown]"),
}


@each_row("case", _TEXTS)
def test_what_has_no_block_is_a_text_that_names_it(case: str) -> None:
    content, text = _TEXTS[case]
    result = ToolResult(**result_fields({"content": [content]}))
    assert result.success and result.get_serialized_output() == text


def test_an_image_is_a_block_and_named_in_the_text() -> None:
    content = [{"type": "image", "data": _PNG, "mimeType": "image/png"}, {"type": "text", "text": "see"}]
    result = ToolResult(**result_fields({"content": content}))
    assert result.output == "[image, image/png]\nsee"
    assert to_result(result.model_dump())["content"] == content


@each_row("structured", [{"rows": [1]}, [1, 2], 3, "text", False])
def test_structured_content_is_the_output_with_its_text_beside_it(structured: Any) -> None:
    given = {"content": [{"type": "text", "text": "one row"}], "structuredContent": structured}
    result = ToolResult(**result_fields(given))
    assert result.output == structured
    made = to_result(result.model_dump())
    assert made["content"] == given["content"]
    assert made.get("structuredContent") == (structured if isinstance(structured, dict) else None)


def test_a_failure_stays_one_both_ways() -> None:
    result = ToolResult(**result_fields({"content": [{"type": "text", "text": "no such file"}], "isError": True}))
    assert not result.success and result.error == {"type": "tool_error", "message": "no such file"}
    assert to_result(result.model_dump()) == {
        "content": [{"type": "text", "text": "no such file"}],
        "isError": True,
    }
    odd = ToolResult(**result_fields({"content": "none", "isError": True, "structuredContent": {"code": 1}}))
    assert odd.error == {"type": "tool_error", "message": '{"code": 1}'}


_RESULTS = {
    "a text": ToolResult(output="done"),
    "nothing": ToolResult(),
    "an object": ToolResult(output={"a": {1, 2}, "b": float("nan")}),
    "a list": ToolResult(output=[1]),
    "a failure with output": ToolResult(success=False, output={"returncode": 1}, error={"message": "exit code 1"}),
    "a failure without words": ToolResult(success=False),
    "a failure whose message is no text": ToolResult(success=False, error={"message": {"code": 1}}),
}


@each_row("case", _RESULTS)
def test_the_official_sdk_reads_what_a_client_gets(case: str) -> None:
    result = _RESULTS[case]
    read = CallToolResult.model_validate_json(json.dumps(to_result(result.model_dump()), allow_nan=False))
    assert read.is_error is not result.success
    assert result.success or read.content
    assert (read.structured_content is not None) == isinstance(result.output, dict)
