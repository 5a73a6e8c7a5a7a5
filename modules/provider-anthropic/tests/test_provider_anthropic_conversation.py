"""The conversation as the vendor takes it: roles, tool calls with their results, thinking, images, and repairs."""

from __future__ import annotations

from typing import Any

import pytest
from amplifier_core.message_models import Message
from amplifier_module_provider_anthropic.conversation import MessageList

_SIGNED = {"type": "thinking", "thinking": "hm", "signature": "s1"}
_CALL = {"type": "tool_call", "id": "c1", "name": "look", "input": {"a": 1}}
_USED = {"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}}
_PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result(call_id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def _of(*messages: dict[str, Any], unusable: tuple[str, ...] = ()) -> MessageList:
    return MessageList.of([Message.model_validate(one) for one in messages], unusable)


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _assistant(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def _tool(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        pytest.param(
            [_user("a"), _user("b"), _assistant("c"), _assistant("d"), _user("e")],
            [_user([_said("a"), _said("b")]), _assistant([_said("c"), _said("d")]), _user([_said("e")])],
            id="one role in a row is one message",
        ),
        pytest.param(
            [_user("a"), {"role": "developer", "content": "b"}, {"role": "system", "content": "c"}],
            [_user([_said("a"), _said("<developer>\nb\n</developer>"), _said("<system>\nc\n</system>")])],
            id="developers and later system messages speak as the user",
        ),
        pytest.param(
            [
                _user("a"),
                _assistant([_SIGNED, _CALL, {**_CALL, "id": "c2"}]),
                _tool("c2", "2"),
                _user("b"),
                _tool("c1", "1"),
            ],
            [
                _user([_said("a")]),
                _assistant([_SIGNED, _USED, {**_USED, "id": "c2"}]),
                _user([_result("c2", "2"), _result("c1", "1"), _said("b")]),
            ],
            id="results are together and come first",
        ),
        pytest.param(
            [
                _user("a"),
                _assistant("b", tool_calls=[{"id": "c1", "tool": "look", "arguments": {"a": 1}}]),
                {"role": "function", "content": [{"type": "tool_result", "tool_call_id": "c1", "output": {"x": 1}}]},
            ],
            [_user([_said("a")]), _assistant([_said("b"), _USED]), _user([_result("c1", '{"x": 1}')])],
            id="calls beside the content and results as blocks",
        ),
        pytest.param(
            [
                _user("a"),
                _assistant(
                    [_CALL],
                    tool_calls=[
                        {"id": "c1", "name": "look", "arguments": {"a": 1}},
                        {"id": "c2", "function": {"name": "look", "arguments": '{"b": 2}'}},
                    ],
                ),
                _tool("c1", ""),
                _tool("c2", [_said("seen"), _PNG]),
            ],
            [
                _user([_said("a")]),
                _assistant([_USED, {"type": "tool_use", "id": "c2", "name": "look", "input": {"b": 2}}]),
                _user([{"type": "tool_result", "tool_use_id": "c1"}, _result("c2", [_said("seen"), _PNG])]),
            ],
            id="a call is sent once, and images of results with them",
        ),
        pytest.param(
            [_user([_said("see"), _PNG, _said(" ")]), _assistant([{"type": "thinking", "thinking": "hm"}]), _user("b")],
            [_user([_said("see"), _PNG, _said("b")])],
            id="unsigned thinking and empty text are left out",
        ),
        pytest.param(
            [_user("a"), _assistant([{"type": "redacted_thinking", "data": "d"}, _said("b")]), _user("c")],
            [
                _user([_said("a")]),
                _assistant([{"type": "redacted_thinking", "data": "d"}, _said("b")]),
                _user([_said("c")]),
            ],
            id="redacted thinking is kept",
        ),
    ],
)
def test_messages_are_converted(messages: list[dict[str, Any]], sent: list[dict[str, Any]]) -> None:
    conversation = _of(*messages)
    assert conversation.messages == sent and not conversation.repairs


def test_system_messages_at_the_beginning_are_the_system_text() -> None:
    conversation = _of({"role": "system", "content": "a"}, {"role": "system", "content": "b"}, _user("c"))
    assert conversation.system == [_said("a"), _said("b")]
    assert conversation.messages == [_user([_said("c")])]


def test_a_call_without_a_result_is_answered() -> None:
    conversation = _of(
        _user("a"), _assistant([_CALL, {**_CALL, "id": "c2"}]), _tool("c2", "2"), _assistant("b"), _user("c")
    )
    answered = conversation.messages[2]["content"]
    assert [block["tool_use_id"] for block in answered] == ["c2", "c1"]
    assert answered[1]["is_error"] and "has no result" in answered[1]["content"]
    assert [(one.tool_call_id, one.tool_name, one.repair) for one in conversation.repairs] == [
        ("c1", "look", "answered")
    ]


def test_a_result_without_its_call_is_dropped() -> None:
    conversation = _of(_tool("c0", "x"), _user("a"), _assistant([_CALL]), _tool("c1", "1"), _tool("c1", "again"))
    assert [one["role"] for one in conversation.messages] == ["user", "assistant", "user"]
    assert conversation.messages[2]["content"] == [_result("c1", "1")]
    assert [(one.tool_call_id, one.repair) for one in conversation.repairs] == [("c0", "dropped"), ("c1", "dropped")]


def test_a_conversation_begins_and_ends_with_the_user() -> None:
    roles = [one["role"] for one in _of(_assistant("a"), _user("b"), _assistant("c")).messages]
    assert roles == ["user", "assistant", "user", "assistant", "user"]


def test_thinking_that_is_unusable_is_left_out() -> None:
    said = [_SIGNED, {"type": "redacted_thinking", "data": "d"}, {**_SIGNED, "signature": "s2"}, _said("b")]
    conversation = _of(_user("a"), _assistant(said), _user("c"), unusable=("s1", "d"))
    assert conversation.messages[1]["content"] == [{**_SIGNED, "signature": "s2"}, _said("b")]
