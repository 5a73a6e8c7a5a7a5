"""What a person sees of a message of the conversation."""

from __future__ import annotations

from typing import Any

from paddock.session.journals.context_journal import text_of_message
from support.rows import each_row

_CALL = {"type": "tool_call", "id": "c1", "name": "bash", "input": {"command": "ls"}}
_AS_JSON = '{"type": "tool_call", "id": "c1", "name": "bash", "input": {"command": "ls"}}'


@each_row(
    ("message", "text"),
    [
        ({"content": "über uns"}, "über uns"),
        (
            {"content": [{"type": "text", "text": "I look."}, _CALL], "tool_calls": [{"id": "c1"}]},
            f"I look.\n{_AS_JSON}",
        ),
        ({"content": "", "tool_calls": [_CALL]}, f"\n{_AS_JSON}"),
        ({"content": None}, ""),
    ],
)
def test_text_is_shown_as_text_and_calls_as_json(message: dict[str, Any], text: str) -> None:
    assert text_of_message(message) == text
