"""The server that speaks as Anthropic does: what it streams, signs and refuses, to a plain HTTP client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from vendors.anthropic_dialect import AnthropicDialect
from vendors.script import Script
from vendors.server import VendorServer

_USER = {"role": "user", "content": "hello"}
_ASK = {"model": "small", "max_tokens": 100, "messages": [_USER]}
_LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
_CACHED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}


@pytest.fixture
def serve() -> Iterator[Any]:
    """Start servers that end with the test."""
    with ExitStack() as stack:

        def start(turns: list[Any], **options: Any) -> VendorServer:
            script = Script(turns, **options)
            return stack.enter_context(VendorServer(script, AnthropicDialect(script.quirks)))

        yield start


def _post(server: VendorServer, body: object = _ASK, **headers: str) -> httpx.Response:
    given = {"anthropic-version": "2023-06-01", **{name.replace("_", "-"): value for name, value in headers.items()}}
    with httpx.Client(trust_env=False, timeout=60, verify=False) as client:
        return client.post(f"{server.url}/v1/messages", json=body, headers=given)


def _events(text: str) -> list[dict[str, Any]]:
    events = []
    for block in text.split("\n\n")[:-1]:
        name, _, data = block.partition("\ndata: ")
        events.append(json.loads(data))
        assert name == f"event: {events[-1]['type']}"
    return events


def test_an_answer_is_streamed_block_by_block_and_is_the_same_whole(serve: Any) -> None:
    call = {"name": "look", "arguments": ['{"a', '": 1}'], "id": "toolu_1"}
    usage = {"input": 9, "output": 4, "cached": 2, "written": 1}
    turn = {"reasoning": ["h", "m"], "text": ["Hel", "lo"], "tool_calls": [call], "usage": usage}
    server = serve([turn, turn])
    events = _events(_post(server, {**_ASK, "stream": True}).text)
    assert [event["type"] for event in events if "block" not in event["type"]] == [
        *("message_start", "ping", "message_delta", "message_stop")
    ]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert [delta["type"].removesuffix("_delta") for delta in deltas] == [
        *("thinking", "thinking", "signature", "text", "text"),
        *("input_json", "input_json", "input_json"),
    ]
    assert events[-2]["delta"]["stop_reason"] == "tool_use" and events[-2]["usage"] == {"output_tokens": 4}
    whole = _post(server).json()
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    assert whole["content"][2]["input"] == {"a": 1} and deltas[2]["signature"] == whole["content"][0]["signature"]
    assert whole["usage"]["input_tokens"] == 6 and whole["usage"]["cache_read_input_tokens"] == 2


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("rate_limit", 429, "rate_limit_error"),
        ("overloaded", 529, "overloaded_error"),
        ("server_error", 500, "api_error"),
        ("permission", 403, "permission_error"),
        ("quota", 400, "invalid_request_error"),
        ("content_filter", 400, "invalid_request_error"),
    ],
)
def test_errors_are_the_vendors(serve: Any, kind: str, status: int, error: str) -> None:
    server = serve([{"text": "at last", "faults": [{"kind": kind, "retry_after": "3"}]}])
    refused = _post(server)
    assert (refused.status_code, refused.json()["error"]["type"]) == (status, error)
    assert refused.headers["retry-after"] == "3" and refused.json()["type"] == "error"
    assert _post(server).json()["content"][0]["text"] == "at last"


def test_keys_models_and_sizes_are_judged(serve: Any) -> None:
    server = serve(["yes"], models=["small"], key="sk-1", context_tokens=100)
    assert _post(server).json()["error"]["type"] == "authentication_error"
    large = _post(server, {**_ASK, "model": "large"}, x_api_key="sk-1")
    assert (large.status_code, large.json()["error"]["type"]) == (404, "not_found_error")
    long = {**_ASK, "messages": [{"role": "user", "content": "word " * 200}]}
    assert "prompt is too long" in _post(server, long, authorization="Bearer sk-1").json()["error"]["message"]
    listed = httpx.get(f"{server.url}/v1/models", headers={"x-api-key": "sk-1"}, trust_env=False).json()
    assert [one["id"] for one in listed["data"]] == ["small"] and not listed["has_more"]


@pytest.mark.parametrize("thought", ["hm", "[redacted] hm"])
def test_thinking_is_signed_and_taken_back_unchanged_alone(serve: Any, thought: str) -> None:
    server = serve([{"reasoning": [thought], "text": "one"}, "two", "three"], quirks=["binds_thinking"])
    first, *rest = _post(server).json()["content"]
    said = {"role": "assistant", "content": [first, *rest]}
    conversation = [_USER, said, _USER]
    assert _post(server, {**_ASK, "messages": conversation}).status_code == 200
    other = {name: f"{value}x" for name, value in first.items() if name != "type"}
    changed = {**said, "content": [{**first, **other}, *rest]}
    for messages, system in (([_USER, changed, _USER], "be"), (conversation, "changed")):
        refused = _post(server, {**_ASK, "messages": messages, "system": system})
        assert refused.status_code == 400 and "Invalid `signature`" in server.refusals[-1]


_CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
_CALLS = {"role": "assistant", "content": [_CALL]}
_RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
_RESULTS = {"role": "user", "content": [_RESULT]}
_SAID = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    "change",
    [
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
    ],
    ids=str,
)
def test_what_the_vendor_refuses_is_refused_and_remembered(serve: Any, change: dict[str, Any]) -> None:
    server = serve(["yes"])
    assert _post(server, {**_ASK, "tools": [_LOOK], **change}).status_code == 400
    assert len(server.refusals) == 1
    fine = [_USER, _CALLS, {"role": "user", "content": [_RESULT, _CACHED]}]
    assert _post(server, {**_ASK, "tools": [_LOOK], "messages": fine}).status_code == 200


def test_a_request_without_a_version_is_refused(serve: Any) -> None:
    server = serve(["yes"])
    with httpx.Client(trust_env=False, timeout=60, verify=False) as client:
        assert client.post(f"{server.url}/v1/messages", json=_ASK).status_code == 400
