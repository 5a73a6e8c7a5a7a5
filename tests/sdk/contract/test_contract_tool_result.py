"""`ToolResult`: what a model reads of it, what its content may hold, and how it is copied and dumped."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from paddock_sdk.contract.message_models import ImageBlock, TextBlock
from paddock_sdk.contract.models import ToolResult
from support.rows import each_row

PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}


@each_row(
    ("fields", "output"),
    [
        ({"success": False, "error": {"message": "no such file"}}, "no such file"),
        ({"success": False, "error": {"message": "no"}, "output": "partial"}, "partial"),
        ({"success": False, "error": {"message": "no"}, "output": ""}, ""),
        ({"success": False, "error": {"message": ""}}, None),
        ({"success": False, "error": {"code": 2}}, None),
        ({"success": False}, None),
        ({"success": True, "error": {"message": "a warning"}}, None),
    ],
)
def test_a_failure_without_output_puts_its_message_there(fields: dict[str, Any], output: object) -> None:
    assert ToolResult(**fields).output == output


@each_row(
    ("result", "text"),
    [
        (ToolResult(output="done"), "done"),
        (ToolResult(output={"a": 1}), "{'a': 1}"),
        (ToolResult(), "Success"),
        (ToolResult(output=""), "Success"),
        (ToolResult(output=0), "Success"),
        (ToolResult(success=False), "Failed"),
        (ToolResult(success=False, error={}), "Failed"),
        (ToolResult(success=False, error={"message": "no"}), "Error: no"),
        (ToolResult(success=False, error={"code": 2}), "Error: Unknown error"),
        (ToolResult(success=False, error={"message": ""}), "Error: Unknown error"),
    ],
)
def test_a_result_reads_as_its_output_or_as_its_error(result: ToolResult, text: str) -> None:
    assert str(result) == text


@each_row(
    ("result", "text"),
    [
        (ToolResult(output="plain"), "plain"),
        (ToolResult(output=""), ""),
        (ToolResult(output=0), "0"),
        (ToolResult(output=True), "True"),
        (ToolResult(output={"b": 1, "a": [None, True]}), '{"b": 1, "a": [null, true]}'),
        (ToolResult(output=["é"]), '["\\u00e9"]'),
        (ToolResult(output={"cost": Decimal("0.10")}), '{"cost": "0.10"}'),
        (ToolResult(output=(1, 2)), "(1, 2)"),
        (ToolResult(), "Success"),
        (ToolResult(success=False), "Error: Failed"),
        (ToolResult(success=False, error={}), "Error: Failed"),
        (ToolResult(success=False, error={"code": 2}), "Error: Unknown error"),
        (ToolResult(success=False, error={"message": "no"}), "no"),
        (ToolResult(output="\x1b[31mred\x00\x9b tab\tline\n"), "[31mred tab\tline\n"),
        (ToolResult(output="a\ud800b"), "ab"),
    ],
)
def test_the_serialised_output_is_text_for_a_model(result: ToolResult, text: str) -> None:
    assert result.get_serialized_output() == text


def test_output_json_cannot_express_is_an_error_that_names_the_type() -> None:
    with pytest.raises(TypeError, match="object"):
        ToolResult(output={"a": object()}).get_serialized_output()


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_sanitised_text_is_encodable_and_loses_only_control_characters(text: str) -> None:
    clean = ToolResult(output=text).get_serialized_output()
    clean.encode()
    removed = (
        set(range(9)) | {0x0B, 0x0C} | set(range(0x0E, 0x20)) | set(range(0x7F, 0xA0)) | set(range(0xD800, 0xE000))
    )
    assert clean == "".join(character for character in text if ord(character) not in removed)


@each_row("absent", [{}, {"content": None}, {"content": []}])
def test_absent_content_leaves_no_key_in_any_dump(absent: dict[str, Any]) -> None:
    result = ToolResult(output="x", **absent)
    assert result.content is None
    assert result.model_dump() == {"success": True, "output": "x", "error": None}
    assert result.model_dump(mode="json") == {"success": True, "output": "x", "error": None}
    assert json.loads(result.model_dump_json()) == {"success": True, "output": "x", "error": None}
    assert result.safe_hook_presentation() == {"success": True, "output": "x", "error": None}


def test_content_holds_text_and_inline_images_without_their_extra_keys() -> None:
    result = ToolResult(
        content=[
            {"type": "text", "text": "see", "cache_control": "x"},  # type: ignore[list-item]
            {"type": "image", "source": {**PNG, "url": "http://example"}, "alt": "y"},  # type: ignore[list-item]
            TextBlock(text="two", visibility="user", vendor="z"),  # type: ignore[call-arg]
        ]
    )
    assert result.content == [
        TextBlock(text="see"),
        ImageBlock(source=PNG),
        TextBlock(text="two", visibility="user"),
    ]
    assert list(result.model_dump()) == ["success", "output", "error", "content"]
    assert ToolResult.model_validate_json(result.model_dump_json()) == result


@each_row(
    "block",
    [
        {"type": "image", "source": {"type": "url", "url": "http://example/a.png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
        {"type": "image", "source": {"type": "base64", "data": "aGk="}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b"hi"}},
        {"type": "image", "source": {"media_type": "image/png", "data": "aGk="}},
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_call", "id": "1", "name": "t", "input": {}},
        {"type": "video", "source": PNG},
        {"text": "no type"},
        ImageBlock(source={"type": "url", "url": "http://example/a.png"}),
        "text",
    ],
)
def test_any_other_content_is_refused(block: object) -> None:
    with pytest.raises(ValidationError):
        ToolResult(content=[block])  # type: ignore[list-item]
    with pytest.raises(ValidationError):
        ToolResult(content=[{"type": "text", "text": "fine"}, block])  # type: ignore[list-item]


def test_an_error_does_not_repeat_what_was_passed() -> None:
    with pytest.raises(ValidationError) as caught:
        ToolResult(error="hunter2")  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value)


def test_an_assignment_is_validated() -> None:
    result = ToolResult()
    result.success = False
    with pytest.raises(ValidationError):
        result.error = "no"  # type: ignore[assignment]
    with pytest.raises(ValidationError):
        result.content = [ImageBlock(source={"type": "url", "url": "http://example"})]
    assert (result.success, result.error, result.content) == (False, None, None)


def test_a_copy_with_an_update_is_validated() -> None:
    with pytest.raises(ValidationError):
        ToolResult().model_copy(update={"error": "no"})


def test_a_copy_takes_the_update_and_keeps_the_rest() -> None:
    result = ToolResult(output={"a": [1]})
    assert result.model_copy(update={"success": False}) == ToolResult(success=False, output={"a": [1]})
    failed = ToolResult().model_copy(update={"success": False, "error": {"message": "no"}})
    assert failed.output == "no"


def test_a_copy_is_deep_only_when_asked() -> None:
    result = ToolResult(output={"a": [1]})
    assert result.model_copy().output is result.output
    deep = result.model_copy(deep=True)
    assert deep == result
    assert deep.output is not result.output


def test_a_hook_is_shown_a_line_of_text_in_place_of_an_image() -> None:
    result = ToolResult(output="x", content=[TextBlock(text="see"), ImageBlock(source=PNG)])
    shown = result.safe_hook_presentation()
    assert shown["output"] == "x"
    assert [block["type"] for block in shown["content"]] == ["text", "text"]
    assert shown["content"][0]["text"] == "see"
    assert "image/png" in shown["content"][1]["text"]
    assert PNG["data"] not in json.dumps(shown)


def test_the_spellings_of_older_results_are_not_fields() -> None:
    result = ToolResult(is_error=True)  # type: ignore[call-arg]
    assert not hasattr(result, "is_error")
    assert not hasattr(result, "to_dict")
