"""What scripted vendors refuse as the vendors do: only so does an accepted request say something of its sender."""

from __future__ import annotations

from typing import Any

import httpx

from support.rows import each_row
from vendors.anthropic_dialect import AnthropicDialect
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Script
from vendors.server import VendorServer

_USER = {"role": "user", "content": "hello"}
_ASK = {"model": "small", "max_tokens": 100, "messages": [_USER]}
_LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
_CACHED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
_CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
_CALLS = {"role": "assistant", "content": [_CALL]}
_RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
_RESULTS = {"role": "user", "content": [_RESULT]}
_SAID = {"type": "text", "text": "x"}
_OPENAI_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_OPENAI_ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [_OPENAI_CALL]}
_OPENAI_RESULT = {"role": "tool", "tool_call_id": "c1", "content": ""}

_ANTHROPIC_REFUSES: list[dict[str, Any]] = [
    {"messages": []},
    {"max_tokens": 0},
    {"model": ""},
    {"surprise": 1},
    {"messages": [{"role": "system", "content": "x"}]},
    {"messages": [{"role": "assistant", "content": "x"}, _USER]},
    {"messages": [_USER, _USER]},
    {"messages": [_USER, {"role": "assistant", "content": "x"}]},
    {"messages": [{"role": "user", "content": ""}]},
    {"messages": [{"role": "user", "content": " \n"}]},
    {"messages": [{"role": "user", "content": []}]},
    {"messages": [{"role": "user", "content": [_CALL]}]},
    {"messages": [{**_USER, "name": "x"}]},
    {"messages": [_USER, _CALLS, _USER]},
    {"messages": [_USER, _CALLS, {"role": "user", "content": [_SAID, _RESULT]}]},
    {"messages": [_USER, _CALLS, {"role": "user", "content": [_RESULT, _RESULT]}]},
    {"messages": [_USER, _CALLS, _RESULTS, _CALLS, _RESULTS]},
    {"messages": [_USER, {"role": "assistant", "content": [{**_CALL, "id": "c 1"}]}, _RESULTS]},
    {"messages": [{"role": "user", "content": [_RESULT]}]},
    {"messages": [_USER, _CALLS, _RESULTS], "tools": []},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "x"}}]}]},
    {"messages": [{"role": "user", "content": [_CACHED] * 5}]},
    {"tools": [_LOOK, _LOOK]},
    {"tools": [{**_LOOK, "input_schema": {}}]},
    {"tools": [{**_LOOK, "name": "a b"}]},
    {"tools": [{**_LOOK, "parameters": {}}]},
    {"tool_choice": {"type": "tool", "name": "gone"}},
    {"tools": [], "tool_choice": {"type": "auto"}},
    {"thinking": {"type": "enabled", "budget_tokens": 100}},
    {
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 2000,
        "messages": [_USER, _CALLS, _RESULTS],
    },
    {"thinking": {"type": "adaptive"}, "tool_choice": {"type": "any"}},
    {"thinking": {"type": "adaptive"}, "temperature": 0.5},
    {"system": [_CALL]},
]
_OPENAI_REFUSES: list[dict[str, Any]] = [
    {"messages": []},
    {"messages": [{"role": "robot", "content": "hello"}]},
    {"messages": [{"role": "user", "content": ""}]},
    {"messages": [{"role": "user", "content": None}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
    {"messages": [_USER, _OPENAI_RESULT]},
    {"messages": [_USER, _OPENAI_ASSISTANT]},
    {"messages": [_USER, _OPENAI_ASSISTANT, _USER]},
    {"messages": [_USER, _OPENAI_ASSISTANT, _OPENAI_RESULT, _OPENAI_RESULT]},
    {"messages": [_USER, {**_OPENAI_ASSISTANT, "tool_calls": []}]},
    {"messages": [_USER, {**_OPENAI_ASSISTANT, "tool_calls": [{**_OPENAI_CALL, "id": None}]}, _OPENAI_RESULT]},
    {"messages": [_USER, {"role": "assistant", "content": None}]},
    {"messages": [_USER, {**_OPENAI_ASSISTANT, "tool_calls": [{**_OPENAI_CALL, "function": {"name": "a b"}}]}]},
    {"tools": []},
    {"tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "string"}}}]},
    {"tool_choice": "auto"},
    {"model": ""},
    {"max_tokens": 1, "max_completion_tokens": 1},
    {"stream_options": {"include_usage": True}},
    {"temperature": 3},
    {"surprise": 1},
]


def _answer(server: VendorServer, path: str, body: object) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.post(f"{server.url}{path}", json=body, headers={"anthropic-version": "2023-06-01"})


@each_row("change", _ANTHROPIC_REFUSES)
def test_what_anthropic_refuses_is_refused_and_remembered(change: dict[str, Any]) -> None:
    fine = [_USER, _CALLS, {"role": "user", "content": [_RESULT, _CACHED]}]
    with VendorServer(Script(["yes"]), AnthropicDialect(frozenset())) as server:
        assert _answer(server, "/v1/messages", {**_ASK, "tools": [_LOOK], **change}).status_code == 400
        assert len(server.refusals) == 1
        assert _answer(server, "/v1/messages", {**_ASK, "tools": [_LOOK], "messages": fine}).status_code == 200


@each_row("change", _OPENAI_REFUSES)
def test_what_openai_refuses_is_refused_and_remembered(change: dict[str, Any]) -> None:
    fine = [_USER, _OPENAI_ASSISTANT, _OPENAI_RESULT, _USER]
    with VendorServer(Script(["yes"]), OpenAIDialect()) as server:
        assert _answer(server, "/chat/completions", {**_ASK, **change}).status_code == 400
        assert len(server.refusals) == 1
        assert _answer(server, "/chat/completions", {**_ASK, "messages": fine}).status_code == 200


@each_row("thought", ["hm", "[redacted] hm"])
def test_thinking_is_signed_and_taken_back_unchanged_alone(thought: str) -> None:
    script = Script([{"reasoning": [thought], "text": "one"}, "two", "three"], quirks=["binds_thinking"])
    with VendorServer(script, AnthropicDialect(script.quirks)) as server:
        first, *rest = _answer(server, "/v1/messages", _ASK).json()["content"]
        said = {"role": "assistant", "content": [first, *rest]}
        conversation = [_USER, said, _USER]
        assert _answer(server, "/v1/messages", {**_ASK, "messages": conversation}).status_code == 200
        other = {name: f"{value}x" for name, value in first.items() if name != "type"}
        changed = {**said, "content": [{**first, **other}, *rest]}
        for messages, system in (([_USER, changed, _USER], "be"), (conversation, "changed")):
            refused = _answer(server, "/v1/messages", {**_ASK, "messages": messages, "system": system})
            assert refused.status_code == 400 and "Invalid `signature`" in server.refusals[-1]
