"""The servers of scripted vendors, driven as clients do: over real connections, with a plain HTTP client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from host.egress.certificates import TestAuthority
from support.rows import each_row
from vendors.openai_dialect import OpenAIDialect
from vendors.script import Script
from vendors.server import VendorServer

_ASK = {"model": "small", "messages": [{"role": "user", "content": "hello"}]}
_STREAM = {**_ASK, "stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
def serve() -> Iterator[Any]:
    """Start servers that end with the test."""
    with ExitStack() as stack:

        def start(turns: list[Any], **options: Any) -> VendorServer:
            script = Script(turns, **options)
            return stack.enter_context(VendorServer(script, OpenAIDialect(script.quirks)))

        yield start


def _post(server: VendorServer, body: object = _ASK, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.post(f"{server.url}/chat/completions", json=body, headers=headers)


def _events(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_turns_are_played_in_order_in_pieces_as_given(serve: Any) -> None:
    call = {"name": "look", "arguments": ['{"a', '": 1}'], "id": "c1"}
    server = serve([{"text": ["Hel", "lo"], "usage": {"input": 7, "output": 2, "cached": 3}}, {"tool_calls": [call]}])
    *chunks, usage, done = _events(_post(server, _STREAM).text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert [delta.get("content") for delta in deltas] == ["", "Hel", "lo", None]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop" and done == "[DONE]"
    assert usage["choices"] == [] and usage["usage"]["prompt_tokens_details"]["cached_tokens"] == 3
    answer = _post(server).json()["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"a": 1}'},
    }
    over = _post(server)
    assert (over.status_code, server.refusals) == (400, ["The script is over."])
    assert [one.body["model"] for one in server.answers] == ["small"] * 3


def test_a_rate_limit_ends_after_so_many_times_or_never(serve: Any) -> None:
    fault = {"kind": "rate_limit", "times": 2, "retry_after": "3"}
    server = serve([{"text": "at last", "faults": [fault]}, {"faults": [{"kind": "quota", "times": -1}]}])
    limited = [_post(server) for _ in range(2)]
    assert [(one.status_code, one.headers["retry-after"]) for one in limited] == [(429, "3")] * 2
    assert _post(server).json()["choices"][0]["message"]["content"] == "at last"
    assert [_post(server).json()["error"]["code"] for _ in range(3)] == ["insufficient_quota"] * 3


def test_keys_models_and_sizes_are_judged(serve: Any) -> None:
    server = serve(["yes"], models=["small"], key="sk-1", context_tokens=100)
    assert _post(server).status_code == 401
    assert _post(server, {**_ASK, "model": "large"}, authorization="Bearer sk-1").json()["error"]["code"] == (
        "model_not_found"
    )
    long = {**_ASK, "messages": [{"role": "user", "content": "word " * 200}]}
    assert _post(server, long, authorization="Bearer sk-1").json()["error"]["code"] == "context_length_exceeded"
    assert _post(server, authorization="Bearer sk-1").status_code == 200
    listed = httpx.get(f"{server.url}/models", headers={"authorization": "Bearer sk-1"}, trust_env=False)
    assert [one["id"] for one in listed.json()["data"]] == ["small"]


def test_a_stall_lasts_until_the_reader_goes_away_and_keeps_the_turn(serve: Any) -> None:
    server = serve([{"text": ["one", "two"], "faults": [{"kind": "stall", "after": 2}]}])
    with httpx.Client(trust_env=False, timeout=60) as client:
        with client.stream("POST", f"{server.url}/chat/completions", json=_STREAM) as response:
            assert "one" in next(text for text in response.iter_text() if "one" in text)
    server.wait_until(lambda: server.answers[0].is_abandoned)
    assert "two" in _post(server, _STREAM).text
    server.wait_until(lambda: server.answers[1].is_answered)


def test_a_stall_ends_when_the_server_is_released(serve: Any) -> None:
    server = serve([{"text": "late", "faults": [{"kind": "stall", "after": 1}]}])
    server.release()
    assert "late" in _post(server, _STREAM).text


def test_a_stream_is_cut_or_garbled_where_the_script_says(serve: Any) -> None:
    faults = [{"kind": "cut", "after": 2}, {"kind": "garble", "after": 1}, {"kind": "html"}]
    server = serve([{"text": ["one", "two"], "faults": [*faults, {"kind": "error_event", "after": 1}]}])
    with httpx.Client(trust_env=False, timeout=60) as client, pytest.raises(httpx.RemoteProtocolError):
        client.post(f"{server.url}/chat/completions", json=_STREAM)
    with pytest.raises(json.JSONDecodeError):
        _events(_post(server, _STREAM).text)
    assert _post(server, _STREAM).headers["content-type"] == "text/html"
    assert "error" in _events(_post(server, _STREAM).text)[-1]
    assert "two" in _post(server, _STREAM).text  # what was cut is said in the end


def test_compatible_servers_leave_out_what_the_script_says(serve: Any) -> None:
    quirks = ["no_usage", "no_ids", "no_index", "no_role", "no_done", "finish_stop", "whole_calls", "reasoning"]
    turn = {"reasoning": ["hm"], "tool_calls": [{"name": "look", "arguments": {"a": 1}}]}
    server = serve([turn], quirks=quirks)
    thought, called, end = (chunk["choices"][0] for chunk in _events(_post(server, _STREAM).text))
    assert thought["delta"] == {"reasoning": "hm"}
    function = {"name": "look", "arguments": '{"a": 1}'}
    assert called["delta"] == {"tool_calls": [{"type": "function", "function": function}]}
    assert end["finish_reason"] == "stop"


_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "tool_call_id": "c1", "content": ""}
_USER = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": [{"role": "robot", "content": "hello"}]},
        {"messages": [{"role": "user", "content": ""}]},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
        {"messages": [_USER, _RESULT]},
        {"messages": [_USER, _ASSISTANT]},
        {"messages": [_USER, _ASSISTANT, _USER]},
        {"messages": [_USER, _ASSISTANT, _RESULT, _RESULT]},
        {"messages": [_USER, {**_ASSISTANT, "tool_calls": []}]},
        {"messages": [_USER, {**_ASSISTANT, "tool_calls": [{**_CALL, "id": None}]}, _RESULT]},
        {"messages": [_USER, {"role": "assistant", "content": None}]},
        {"messages": [_USER, {**_ASSISTANT, "tool_calls": [{**_CALL, "function": {"name": "a b"}}]}]},
        {"tools": []},
        {"tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "string"}}}]},
        {"tool_choice": "auto"},
        {"model": ""},
        {"max_tokens": 1, "max_completion_tokens": 1},
        {"stream_options": {"include_usage": True}},
        {"temperature": 3},
        {"surprise": 1},
    ],
    ids=str,
)
def test_what_a_vendor_refuses_is_refused_and_remembered(serve: Any, change: dict[str, Any]) -> None:
    server = serve(["yes"])
    assert _post(server, {**_ASK, **change}).status_code == 400
    assert len(server.refusals) == 1
    fine = {**_ASK, "messages": [_USER, _ASSISTANT, _RESULT, _USER]}
    assert _post(server, fine).status_code == 200


@each_row("script", [{"turnz": []}, {"turns": [{"txt": "a"}]}, {"turns": [{"faults": [{"kind": "x"}]}]}])
def test_a_script_that_does_not_fit_is_refused(script: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"turnz|txt|`x`"):
        Script.of(script)


def test_it_speaks_tls_and_dates_what_it_sends(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    tls = authority.server("127.0.0.1")
    with VendorServer(Script(["{sent_ns}"]), OpenAIDialect(), tls=tls) as server:
        with httpx.Client(verify=authority.client(), trust_env=False, timeout=60) as client:
            answer = _events(client.post(f"{server.url}/chat/completions", json=_STREAM).text)
    assert answer[1]["choices"][0]["delta"]["content"].isdigit()


def test_it_runs_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": ["hello"]}))
    tests = str(Path(__file__).resolve().parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "vendors.serve", "--script", str(script), "--with-stdin"],
        env={**os.environ, "PYTHONPATH": tests},
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None and process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        answer = httpx.post(f"{url}/chat/completions", json=_ASK, trust_env=False, timeout=60).json()
        process.stdin.close()
        assert process.wait(60) == 0
    assert answer["choices"][0]["message"]["content"] == "hello"
