"""The shipped provider for OpenAI's chat completions, in process, against a server that speaks them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import anyio.to_thread
import pytest
from amplifier_core import llm_errors
from amplifier_core.message_models import ChatRequest, Message, ToolSpec
from amplifier_module_provider_openai import Endpoint, OpenAIProvider, Settings

from modules.scene import VENDORS, Scene, scenes
from vendors.script import Script

_LOOK = ToolSpec(name="look", description="looks", parameters={"type": "object", "properties": {"at": {}}})

Open = Callable[..., Scene[OpenAIProvider]]


@pytest.fixture
async def scene() -> AsyncIterator[Open]:
    async with scenes(*VENDORS["openai"]) as begin:
        yield begin


def ask(text: str = "hello", **more: Any) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content=text)], **more)


async def test_an_answer_comes_in_pieces_and_then_whole(scene: Open) -> None:
    usage = {"input": 1000, "output": 100, "cached": 600, "reasoning": 40}
    turn = {"reasoning": ["hm", "m"], "text": ["Hel", "lo"], "usage": usage}
    prices = {"small": {"input_per_million": 1, "output_per_million": "10", "cache_read_per_million": 0.5}}
    played = scene([turn, turn], {"prices": prices}, quirks=["reasoning_content"])
    response = await played.provider.complete(ask(metadata={"span_id": "s1", "secret": "no"}))
    assert played.shown == [("thinking", "hm"), ("thinking", "m"), ("text", "Hel"), ("text", "lo")]
    assert [one["block_index"] for one in played.told("llm:stream_block_delta")] == [0, 0, 1, 1]
    assert [one["block_type"] for one in played.told("llm:stream_block_end")] == ["thinking", "text"]
    assert {one["span_id"] for one in played.told("llm:stream_block_delta")} == {"s1"}
    assert [block.type for block in response.content] == ["thinking", "text"]
    assert response.usage is not None and response.usage.reasoning_tokens == 40
    assert response.usage.cache_read_tokens == 600 and response.usage.cost_usd == Decimal("0.0017")
    assert (response.finish_reason, response.tool_calls) == ("stop", None)

    whole = await played.provider.complete(ask(metadata={"stream": False}))
    assert whole.content == response.content and len(played.shown) == 4  # nobody reads an answer to such a question
    assert [one["status"] for one in played.told("llm:response")] == ["ok", "ok"]
    assert len(played.told("llm:request")) == 2 and "secret" not in played.told("llm:request")[0]
    assert played.provider.cost() == {"cost_usd": "0.0034"}
    assert not played.server.refusals
    assert not hasattr(played.provider, "stream")  # which loops of the community take for another protocol


@pytest.mark.parametrize(
    ("quirks", "config"),
    [
        ([], {}),
        (["no_ids"], {}),
        (["no_ids", "no_index"], {}),
        (["no_index", "whole_calls", "finish_stop", "no_usage", "no_role", "no_done", "reasoning"], {}),
        ([], {"stream": False}),
        (["no_ids", "finish_stop", "no_usage", "reasoning_content"], {"stream": False}),
    ],
)
async def test_tool_calls_are_read_however_a_server_writes_them(
    scene: Open, quirks: list[str], config: dict[str, Any]
) -> None:
    calls = [{"name": "look", "arguments": {"at": "here, and there"}}, {"name": "look", "arguments": ""}]
    played = scene([{"text": "I look.", "tool_calls": calls}, "I saw."], config, quirks=quirks)
    request = ask(tools=[_LOOK], tool_choice="auto")
    response = await played.provider.complete(request)
    found = played.provider.parse_tool_calls(response)
    assert [(call.name, call.arguments) for call in found] == [("look", {"at": "here, and there"}), ("look", {})]
    assert len({call.id for call in found}) == 2 and all(call.id for call in found)
    assert response.finish_reason == "tool_calls"
    assert (response.usage is None) == ("no_usage" in quirks)
    request.messages += [
        Message(role="assistant", content=response.content),
        *(Message(role="tool", tool_call_id=call.id, content="") for call in found),
    ]
    assert (await played.provider.complete(request)).content[-1].text == "I saw."
    assert not played.server.refusals


_FOR_EVER = {"times": -1}


@dataclass(frozen=True)
class Bad:
    """What goes wrong, and the error that comes of it: its class, what its words name, how many requests it took."""

    turns: list[Any]
    error: type[llm_errors.LLMError]
    words: tuple[str, ...]
    requests: int = 1
    script: dict[str, Any] | None = None
    may_retry: bool = False


def _faults(**fault: Any) -> list[Any]:
    return [{"text": ["never", " said"], "faults": [{**_FOR_EVER, **fault}]}]


_BROKEN = {"tool_calls": [{"name": "look", "arguments": '{"at": '}]}
_CUT_CALL = {**_BROKEN, "finish": "length"}
_LIMIT = {"kind": "rate_limit", "retry_after": "7"}
_BAD = {
    "no key": Bad(["never"], llm_errors.AuthenticationError, ("has none", "${NAME}"), script={"key": "sk-right"}),
    "key may not": Bad(_faults(kind="permission"), llm_errors.AccessDeniedError, ("may use",)),
    "unknown model": Bad(
        ["never"], llm_errors.NotFoundError, ("`small`", "`default_model`"), script={"models": ["large"]}
    ),
    "page": Bad(_faults(kind="html"), llm_errors.ProviderUnavailableError, ("a page", "`base_url`", "/v1")),
    "refusal of LM Studio's, as an answer": Bad(
        _faults(kind="json", message='{"error": "Unexpected endpoint or method."}'),
        llm_errors.ProviderUnavailableError,
        ("Unexpected endpoint or method.", "`base_url`", "/v1"),
    ),
    "page of a gateway": Bad(
        _faults(kind="html", status=502), llm_errors.ProviderUnavailableError, ("a page", "3 tries"), 3, may_retry=True
    ),
    "no list of chunks": Bad(_faults(kind="garble"), llm_errors.StreamError, ("base_url",), 3, may_retry=True),
    "stops mid-stream": Bad(_faults(kind="cut", after=2), llm_errors.StreamError, ("broke off",), 3, may_retry=True),
    "never begins": Bad(_faults(kind="cut"), llm_errors.NetworkError, ("grant",), 3, may_retry=True),
    "malformed event": Bad(
        _faults(kind="garble", after=1), llm_errors.StreamError, ("cannot be read",), 3, may_retry=True
    ),
    "error mid-stream": Bad(
        _faults(kind="error_event", after=2), llm_errors.StreamError, ("in the midst",), 3, may_retry=True
    ),
    "broken tool JSON": Bad([_BROKEN], llm_errors.InvalidToolCallError, ("`look`", "JSON")),
    "tool call cut short": Bad([_CUT_CALL], llm_errors.InvalidToolCallError, ("`max_output_tokens`",)),
    "context too long": Bad(
        ["never"], llm_errors.ContextLengthError, ("longer than", "Shorten"), script={"context_tokens": 5}
    ),
    "filtered": Bad(_faults(kind="content_filter"), llm_errors.ContentFilterError, ("other words",)),
    "held back": Bad([{"finish": "content_filter"}], llm_errors.ContentFilterError, ("held back",)),
    "nothing to spend": Bad(_faults(kind="quota"), llm_errors.QuotaExceededError, ("credit",)),
    "endless rate limit": Bad(
        _faults(**_LIMIT), llm_errors.RateLimitError, ("7 seconds", "3 tries"), 3, may_retry=True
    ),
    "rate limit for hours": Bad(
        _faults(kind="rate_limit", retry_after="7200"), llm_errors.RateLimitError, ("7200",), may_retry=True
    ),
    "overloaded": Bad(_faults(kind="server_error"), llm_errors.ProviderUnavailableError, ("later",), 3, may_retry=True),
    "bad request": Bad(_faults(kind="bad_request"), llm_errors.InvalidRequestError, ("settings",)),
}


@pytest.mark.parametrize("case", [pytest.param(bad, id=name) for name, bad in _BAD.items()])
async def test_what_goes_wrong_is_the_contracts_error_and_what_to_do(scene: Open, case: Bad) -> None:
    played = scene(case.turns, {"max_retries": 2}, **(case.script or {}))
    with pytest.raises(llm_errors.LLMError) as caught:
        await played.provider.complete(ask())
    error = caught.value
    assert type(error) is case.error, error
    assert all(word in str(error) for word in case.words), error
    assert (error.provider, error.model, error.retryable) == ("openai", "small", case.may_retry)
    assert len(played.server.answers) == case.requests
    assert [one["attempt"] for one in played.told("provider:retry")] == list(range(1, case.requests))
    assert len(played.slept) == case.requests - 1
    # The next request is answered as if nothing had been.
    played.server.script = Script(["and on it goes"])
    assert (await played.provider.complete(ask("again"))).content[0].text == "and on it goes"


@pytest.mark.parametrize(
    ("config", "environ", "place"),
    [
        ({"api_key": "sk-wrong"}, {}, "`api_key`"),
        ({"api_key": "sk-wrong"}, {"OPENAI_API_KEY": "sk-other"}, "`api_key`"),
        ({}, {"OPENAI_API_KEY": "sk-wrong"}, "OPENAI_API_KEY"),
    ],
)
async def test_a_key_that_is_wrong_is_named_by_where_it_is_from(
    scene: Open, config: dict[str, Any], environ: dict[str, str], place: str
) -> None:
    played = scene(["never"], config, environ, key="sk-right")
    with pytest.raises(llm_errors.AuthenticationError, match=f"does not take the key in {place}: ") as caught:
        await played.provider.complete(ask())
    assert str(caught.value).count("OPENAI_API_KEY") == (place == "OPENAI_API_KEY")


async def test_without_a_key_nothing_is_sent_and_the_error_says_where_it_goes() -> None:
    settings = Settings.of({}, {})
    provider = OpenAIProvider(settings, Endpoint(settings))
    with pytest.raises(llm_errors.AuthenticationError, match="OPENAI_API_KEY"):
        await provider.complete(ask())
    assert "gpt-5-mini" in [model.id for model in await provider.list_models()]
    await provider.close()


async def test_a_server_that_is_not_there_is_named_with_its_port() -> None:
    with socket.socket() as unused:  # bound and never listening: no other process gets the port
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1"
        settings = Settings.of({"base_url": url, "default_model": "small", "max_retries": 0}, {})
        provider = OpenAIProvider(settings, Endpoint(settings))
        with pytest.raises(llm_errors.NetworkError, match=rf"127.0.0.1:{port} cannot be reached.*runs.*net: "):
            await provider.complete(ask())
        await provider.close()


@pytest.mark.parametrize("after", [None, 1])
async def test_a_server_that_falls_silent_is_waited_for_so_long(scene: Open, after: int | None) -> None:
    played = scene(_faults(kind="stall", after=after), {"max_retries": 0, "timeout_seconds": 0.2})
    with pytest.raises(llm_errors.LLMTimeoutError, match="`timeout_seconds`"):
        await played.provider.complete(ask())


async def test_waits_grow_and_the_servers_wish_comes_first(scene: Open) -> None:
    faults = [{"kind": "overloaded", "times": 3}, {"kind": "rate_limit", "retry_after": "30"}]
    played = scene([{"text": "at last", "faults": faults}])
    assert (await played.provider.complete(ask())).content[0].text == "at last"
    assert played.slept == [1.0, 2.0, 4.0, 30.0]
    told = played.told("provider:retry")
    assert [one["attempt"] for one in told] == [1, 2, 3, 4] and told[3]["error"]["type"] == "RateLimitError"
    assert (told[3]["delay"], told[3]["retry_after"], told[3]["max_retries"]) == (30.0, 30.0, 4)


async def test_an_answer_that_breaks_off_is_void_and_comes_from_its_beginning(scene: Open) -> None:
    faults = [{"kind": "cut"}, {"kind": "cut", "after": 1}, {"kind": "cut", "after": 2}]
    played = scene([{"text": ["one", "two"], "faults": faults}])
    assert (await played.provider.complete(ask())).content[0].text == "onetwo"
    assert len(played.server.answers) == 4 and len(played.slept) == 3
    assert [text for _, text in played.shown] == ["one", "one", "two"]
    (aborted,) = played.told("llm:stream_aborted")
    first, second = played.told("llm:stream_block_start")
    assert aborted["request_id"] == first["request_id"] != second["request_id"]
    assert aborted["error"]["type"] == "StreamError"


async def test_an_answer_of_no_use_is_counted_among_the_costs(scene: Open) -> None:
    spent = {"usage": {"input": 1_000_000, "output": 0}}
    prices = {"small": {"input_per_million": 1, "output_per_million": 1}}
    played = scene([{**_BROKEN, **spent}, {"text": "fine", **spent}], {"prices": prices})
    with pytest.raises(llm_errors.InvalidToolCallError):
        await played.provider.complete(ask())
    response = await played.provider.complete(ask())
    assert response.usage is not None and response.usage.cost_usd == 1
    assert played.provider.cost() == {"cost_usd": "2"}


async def test_an_answer_that_is_cut_short_is_continued_within_bounds(scene: Open) -> None:
    def part(text: str, finish: str = "length") -> dict[str, Any]:
        return {"text": [text], "finish": finish, "usage": {"input": 10, "output": 3}}

    played = scene([part("one, "), part("two, "), part("three.", "stop")] + [part("on ")] * 4)
    response = await played.provider.complete(ask(max_output_tokens=3))
    assert [block.text for block in response.content] == ["one, two, three."]
    assert response.finish_reason == "stop" and response.usage is not None and response.usage.total_tokens == 39
    roles = [message["role"] for message in played.server.answers[-1].body["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert played.server.answers[0].body["max_tokens"] == 3
    endless = await played.provider.complete(ask())
    assert endless.content[0].text == "on on on on " and endless.finish_reason == "length"
    assert not played.server.refusals


async def test_a_cancelled_answer_closes_its_connection(scene: Open) -> None:
    played = scene([{"text": ["one", "two"], "faults": [{"kind": "stall", "after": 2}]}])
    reading = asyncio.create_task(played.provider.complete(ask()))
    async with asyncio.timeout(60):
        await played.until_shown()
    reading.cancel()
    await asyncio.wait([reading])
    assert reading.cancelled()
    await anyio.to_thread.run_sync(played.server.wait_until, lambda: played.server.answers[0].is_abandoned)
    assert (await played.provider.complete(ask())).content[0].text == "onetwo"


async def test_a_broken_sequence_is_mended_and_told_once(scene: Open) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "look", "input": {"at": "x"}}
    messages = [
        Message(role="system", content="be brief"),
        Message(role="developer", content=[{"type": "text", "text": "be kind"}]),
        Message(role="user", content="look"),
        Message(role="assistant", content=[{"type": "thinking", "thinking": "hm", "signature": "s"}, call]),
        Message(role="user", content="and then?"),
        Message(role="tool", tool_call_id="nobody's", content="lost"),
    ]
    played = scene(["fine", "fine"])
    for _ in range(2):
        await played.provider.complete(ChatRequest(messages=messages))
    sent = played.server.answers[0].body["messages"]
    assert [message["role"] for message in sent] == ["system", "system", "user", "assistant", "tool", "user"]
    assert sent[4]["tool_call_id"] == "c1" and "no result" in sent[4]["content"]
    [told] = played.told("provider:tool_sequence_repaired")
    assert told["repairs"] == [{"tool_call_id": "c1", "tool_name": "look"}]
    assert (told["repair_count"], told["dropped_results"]) == (2, ["nobody's"])
    assert not played.server.refusals


async def test_models_are_listed_with_what_is_known_of_them(scene: Open) -> None:
    prices = {"b": {"input_per_million": 1, "output_per_million": 2}}
    played = scene([], {"prices": prices, "context_window": 5000}, models=["b", "a"])
    first, second = await played.provider.list_models()
    assert [first.id, second.id] == ["a", "b"] and first.pricing is None
    assert second.pricing is not None and second.pricing.output_per_million == 2
    assert (first.context_window, first.max_output_tokens) == (5000, 4096)
    info = played.provider.get_info()
    assert info.defaults == {"model": "small", "context_window": 5000, "max_output_tokens": 4096}
