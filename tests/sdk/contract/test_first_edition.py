"""Names and shapes of the contract's first edition that the published kernel has no more."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_sdk.contract.message_models import ToolCall
from paddock_sdk.contract.models import ToolResult


@pytest.mark.difference("the `arguments` of a tool call can also be read as `input`")
def test_the_arguments_of_a_call_are_its_input() -> None:
    call = ToolCall(id="1", name="read", arguments={"path": "a"})
    assert call.input is call.arguments
    assert "input" not in call.model_dump()
    for missing in ("inputs", "is_error", "output"):
        with pytest.raises(AttributeError, match=missing):
            getattr(call, missing)


def test_an_input_that_a_provider_sets_itself_is_kept() -> None:
    call = ToolCall(id="1", name="read", arguments={"path": "a"}, input="raw")  # type: ignore[call-arg]
    assert (call.input, call.arguments) == ("raw", {"path": "a"})
    call.input = "other"
    assert (call.input, call.model_dump()["input"]) == ("other", "other")


def test_a_call_that_is_not_made_yet_has_no_input() -> None:
    assert not hasattr(ToolCall.model_construct(id="1", name="read"), "input")


@pytest.mark.parametrize(
    ("given", "success"),
    [
        ({"is_error": True}, False),
        ({"is_error": False}, True),
        ({"is_error": True, "success": True}, True),
        ({"is_error": True, "success": False}, False),
    ],
)
@pytest.mark.difference("a tool result made with `is_error=True` is a failure")
def test_a_result_that_says_it_is_an_error_is_a_failure(given: dict[str, Any], success: bool) -> None:
    result = ToolResult(output="refused", **given)
    assert (result.success, result.output) == (success, "refused")
    assert ToolResult.model_validate({"output": "refused", **given}) == result
    assert set(result.model_dump()) == {"success", "output", "error"}
    assert not hasattr(result, "is_error")
