"""The provider: what it returns, announces and sends, how it goes on, and when it tries again."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import anthropic
import httpx2
import pytest
from amplifier_core import llm_errors
from amplifier_core.message_models import (
    ChatRequest,
    Message,
    RedactedThinkingBlock,
    ResponseFormatJson,
    ResponseFormatJsonSchema,
    TextBlock,
    ThinkingBlock,
)
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_anthropic import AnthropicProvider, Settings, mount
from amplifier_module_provider_anthropic.failures import Asked, failure_of
from provider_anthropic_stage import LOOK, Stage, answer, call, redacted, refused, text, thinking

pytestmark = pytest.mark.anyio

_FULL = answer(thinking("hm ", "yes"), text("Hel", "lo"), call("look", '{"at"', ': "x"}'), stop="tool_use")


# --- an answer


async def test_all_blocks_of_an_answer_are_returned_as_they_are() -> None:
    stage = Stage(answer(redacted("opaque"), thinking("hm", signature="s1"), text("Hi"), call("look", id="toolu_7")))
    response = await stage.complete(tools=[LOOK])
    first, second, third, fourth = response.content
    assert isinstance(first, RedactedThinkingBlock) and first.data == "opaque"
    assert isinstance(second, ThinkingBlock) and (second.thinking, second.signature) == ("hm", "s1")
    assert (third.text, fourth.id, fourth.input) == ("Hi", "toolu_7", {})
    assert [(one.id, one.name) for one in stage.provider.parse_tool_calls(response)] == [("toolu_7", "look")]
    assert (response.finish_reason, response.metadata) == ("tool_calls", {"model": "m"})


async def test_the_answer_is_announced_while_it_comes() -> None:
    stage = Stage(_FULL)
    response = await stage.complete(tools=[LOOK], metadata={"span_id": "s1", "iteration": 2, "secret": "no"})
    start, delta, end = "llm:stream_block_start", "llm:stream_block_delta", "llm:stream_block_end"
    assert stage.events == ["llm:request", *[start, delta, delta, end] * 2, "llm:response"]
    blocks = [data for name, data in stage.hooks.events if "stream_block" in name]
    assert [(one["block_type"], one["block_index"]) for one in blocks] == [("thinking", 0)] * 4 + [("text", 1)] * 4
    assert [(one["sequence"], one["text"]) for one in stage.emitted(delta)] == [
        *((0, "hm "), (1, "yes")),
        *((0, "Hel"), (1, "lo")),
    ]
    about = {"provider": "anthropic", "model": "claude-sonnet-5-5", "span_id": "s1", "iteration": 2}
    assert all(about.items() <= data.items() and "secret" not in data for _, data in stage.hooks.events)
    assert len({one["request_id"] for one in blocks}) == 1
    assert stage.emitted("llm:response")[0]["usage"]["output_tokens"] == 5
    assert response.tool_calls is not None and response.tool_calls[0].arguments == {"at": "x"}
    assert not hasattr(stage.provider, "stream")  # which loops of the community take for another protocol


async def test_nothing_is_announced_of_an_answer_that_is_asked_for_aside() -> None:
    stage = Stage(answer(text("aside")))
    await stage.complete(metadata={"stream": False})
    assert stage.events == ["llm:request", "llm:response"]


async def test_usage_and_cost_are_those_of_the_vendor_and_the_table() -> None:
    spent = {"cache_read_input_tokens": 1000, "cache_creation_input_tokens": 100}
    stage = Stage(answer(text("a"), output=20, **spent), answer(text("b"), output=20), default_model="claude-haiku-4-5")
    usage = (await stage.complete()).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1110, 20, 1130)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (1000, 100)
    assert usage.cost_usd == Decimal("0.000335")  # 10 x 1 + 1000 x 0.10 + 100 x 1.25 + 20 x 5, by million
    await stage.complete()
    assert stage.provider.cost() == {"cost_usd": str(Decimal("0.000335") + Decimal("0.00011"))}


async def test_negative_counts_are_left_out_of_usage() -> None:
    stage = Stage(answer(text("a"), output=20, cache_read_input_tokens=-5, cache_creation_input_tokens=-1))
    usage = (await stage.complete()).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (10, 20, 30)
    assert not usage.cache_read_tokens and not usage.cache_write_tokens


async def test_a_model_without_a_price_has_no_cost_unless_configured() -> None:
    stage = Stage(answer(text("a")), default_model="claude-next")
    assert (await stage.complete()).usage.cost_usd is None  # type: ignore[union-attr]
    assert stage.provider.cost() == {"cost_usd": None}
    prices = {"claude-next": {"input_per_million": 1, "output_per_million": "2.5"}}
    stage = Stage(answer(text("a")), default_model="claude-next-20270101", prices=prices)
    assert (await stage.complete()).usage.cost_usd == Decimal("0.0000225")  # type: ignore[union-attr]


async def test_a_long_prompt_is_priced_as_long() -> None:
    stage = Stage(answer(text("a"), output=1, input_tokens=200_000), default_model="claude-haiku-5-5")
    assert (await stage.complete()).usage.cost_usd == Decimal("0.1000025")  # type: ignore[union-attr]


# --- what is sent


async def test_the_request_is_made_of_the_contract_and_the_settings() -> None:
    stage = Stage(answer(text("a")), reasoning_effort="low", prompt_caching=False)
    schema = {"type": "object", "properties": {}}
    await stage.complete(
        Message(role="system", content="Be brief."),
        "hello",
        tools=[LOOK],
        tool_choice="required",
        temperature=0.5,
        stop=["END"],
        max_output_tokens=100,
        response_format=ResponseFormatJsonSchema(json_schema=schema),
    )
    assert stage.sent == [
        {
            "model": "claude-sonnet-5-5",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
            "system": [{"type": "text", "text": "Be brief."}],
            "tools": [
                {
                    "name": "look",
                    "description": "Looks.",
                    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
                }
            ],
            "tool_choice": {"type": "any"},
            "temperature": 0.5,
            "stop_sequences": ["END"],
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}},
            "stream": True,
        }
    ]


async def test_the_cache_is_marked_at_tools_system_and_the_last_two_messages() -> None:
    stage = Stage(answer(text("a")))
    said = [Message(role="system", content="Be brief.")]
    for turn in ("one", "two", "three"):
        said += [Message(role="user", content=turn), Message(role="assistant", content="yes")]
    await stage.complete(*said[:-1], tools=[LOOK])
    (sent,) = stage.sent
    marked = [block for name in ("tools", "system") for block in sent[name] if "cache_control" in block]
    marked += [block for one in sent["messages"] for block in one["content"] if "cache_control" in block]
    assert [block.get("name") or block["text"] for block in marked] == ["look", "Be brief.", "two", "three"]
    assert {block["cache_control"]["type"] for block in marked} == {"ephemeral"}


@pytest.mark.parametrize(
    ("model", "thinking_setting", "sent"),
    [
        ("claude-opus-5-5", "auto", {"type": "adaptive", "display": "summarized"}),
        ("claude-haiku-4-5-20251001", "auto", None),
        ("claude-opus-4-8", "adaptive", {"type": "adaptive", "display": "summarized"}),
        ("claude-sonnet-5", "off", {"type": "disabled"}),
        ("claude-haiku-4-5", 2048, {"type": "enabled", "budget_tokens": 2048}),
    ],
)
async def test_thinking_is_asked_for_as_the_model_takes_it(model: str, thinking_setting: Any, sent: Any) -> None:
    stage = Stage(answer(text("a")), thinking=thinking_setting)
    await stage.provider.complete(stage.request(), model=model)
    assert (stage.sent[0]["model"], stage.sent[0].get("thinking")) == (model, sent)


async def test_tools_of_the_past_are_named_where_none_are_offered() -> None:
    stage = Stage(answer(text("a")))
    calls = Message(role="assistant", content="", tool_calls=[{"id": "c1", "name": "look", "arguments": {}}])
    await stage.complete("go", calls, Message(role="tool", tool_call_id="c1", content="x"))
    assert [tool["name"] for tool in stage.sent[0]["tools"]] == ["look"]
    assert stage.sent[0]["tool_choice"] == {"type": "none"}


async def test_json_without_a_schema_is_said_to_be_text() -> None:
    response = await Stage(answer(text("a"))).complete(response_format=ResponseFormatJson())
    assert response.degradation is not None and response.degradation.actual == "text"


# --- an answer that is cut off


async def test_a_cut_answer_goes_on_and_is_one_answer() -> None:
    stage = Stage(
        answer(thinking("hm"), text("one, "), stop="max_tokens", output=7),
        answer(thinking("well", signature="other"), text("two"), output=3),
        prompt_caching=False,
    )
    response = await stage.complete("count")
    assert [piece for _, piece in stage.shown] == ["hm", "one, ", "well", "two"]
    assert [one["block_index"] for one in stage.emitted("llm:stream_block_end")] == [0, 1, 2, 3]
    assert [block.type for block in response.content] == ["thinking", "text"]
    assert response.content[1].text == "one, two" and response.finish_reason == "stop"
    assert (response.usage.output_tokens, response.usage.input_tokens) == (10, 20)
    asked, begun, go_on = stage.sent[1]["messages"]
    assert begun["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert begun["content"][1] == {"type": "text", "text": "one,"}
    assert asked["role"] == go_on["role"] == "user"


async def test_a_cut_answer_goes_on_only_so_often() -> None:
    stage = Stage(*[answer(text(f"{number} "), stop="max_tokens") for number in range(3)], max_continuations=2)
    response = await stage.complete()
    assert (response.content[0].text, response.finish_reason, len(stage.sent)) == ("0 1 2 ", "length", 3)


@pytest.mark.parametrize("text_of_call", ["", "{", '{"at": "/a/ver'])
async def test_a_call_that_was_cut_off_says_so_and_what_to_set(text_of_call: str) -> None:
    stage = Stage(answer(text("Let me see."), call("look", text_of_call), stop="max_tokens"))
    with pytest.raises(llm_errors.InvalidToolCallError, match=r"cut off there: .*`max_output_tokens`") as caught:
        await stage.complete(tools=[LOOK])
    assert (caught.value.tool_name, caught.value.raw_arguments) == ("look", text_of_call)


async def test_whole_calls_of_a_cut_answer_are_made() -> None:
    cut = answer(call("look", "{}"), call("look", '{"a', id="toolu_2"), stop="max_tokens")
    stage = Stage(cut)
    response = await stage.complete(tools=[LOOK])
    assert [one.id for one in response.tool_calls or ()] == ["toolu_1"]


async def test_an_answer_of_thoughts_alone_says_what_to_set() -> None:
    stage = Stage(answer(thinking("on and on"), stop="max_tokens"))
    with pytest.raises(llm_errors.InvalidRequestError, match="Set a larger `max_output_tokens`"):
        await stage.complete()


# --- tries


async def test_a_failed_request_is_made_again_later_each_time() -> None:
    busy = refused(529, "overloaded_error", "Overloaded")
    stage = Stage(busy, busy, refused(429, "rate_limit_error", "slow", retry_after="7"), answer(text("at last")))
    response = await stage.complete()
    assert response.content[0].text == "at last"
    assert stage.waits == [1.0, 2.0, 7.0]
    about = stage.emitted("provider:retry")
    assert [(one["attempt"], one["delay"], one["retry_after"]) for one in about] == [
        (1, 1.0, None),
        (2, 2.0, None),
        (3, 7.0, 7.0),
    ]
    assert about[2]["error"]["type"] == "RateLimitError" and about[2]["max_retries"] == 4


async def test_a_wait_beyond_the_longest_is_not_waited_for() -> None:
    stage = Stage(refused(429, "rate_limit_error", "slow", retry_after="61"))
    with pytest.raises(llm_errors.RateLimitError, match="in 61 seconds") as raised:
        await stage.complete()
    assert (raised.value.retry_after, stage.waits) == (61.0, [])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("1.5", 1.5), ("0", None), ("-1", None), ("soon", None), ("inf", None), ("nan", None), ("", None)],
)
async def test_a_wait_is_read_as_the_server_writes_it(header: str, seconds: float | None) -> None:
    stage = Stage(refused(503, "api_error", "busy", retry_after=header), max_retries=0)
    with pytest.raises(llm_errors.ProviderUnavailableError) as raised:
        await stage.complete()
    assert raised.value.retry_after == seconds


def test_a_wait_may_be_a_date() -> None:
    response = refused(429, "rate_limit_error", "slow", retry_after="Thu, 01 Jan 1970 00:01:40 GMT")
    response.request = httpx2.Request("POST", "https://api.anthropic.com/v1/messages")
    error = anthropic.RateLimitError("slow", response=response, body=None)
    failure = failure_of(error, Asked("anthropic", "m", "api.anthropic.com"), now=lambda: 90.0)
    assert failure.retry_after == 10.0


async def test_an_answer_that_breaks_off_is_void_and_announced_anew() -> None:
    stage = Stage(answer(text("half"))[:4], answer(text("whole")))
    assert (await stage.complete()).content[0].text == "whole"
    begun = ["llm:stream_block_start", "llm:stream_block_delta"]
    broken = [*begun, "llm:stream_aborted", "provider:retry"]
    assert stage.events == ["llm:request", *broken, *begun, "llm:stream_block_end", "llm:response"]
    assert [piece for _, piece in stage.shown] == ["half", "whole"]
    (aborted,) = stage.emitted("llm:stream_aborted")
    first, second = stage.emitted("llm:stream_block_start")
    assert aborted["error"]["type"] == "StreamError"
    assert aborted["request_id"] == first["request_id"] != second["request_id"]


async def test_a_call_without_sense_is_not_asked_for_again() -> None:
    stage = Stage(answer(call("look", '{"at": '), stop="tool_use"), answer(call("look", "{}"), stop="tool_use"))
    with pytest.raises(llm_errors.InvalidToolCallError):
        await stage.complete(tools=[LOOK])
    assert not stage.emitted("provider:retry") and len(stage.sent) == 1  # the model is the one to hear of it


@pytest.mark.parametrize("settings", [{"default_model": "claude-sonnet-5-5"}, {"thinking": 2048}])
async def test_thinking_that_is_no_longer_taken_is_left_out_from_then_on(settings: dict[str, Any]) -> None:
    refusal = refused(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block.")
    cut = answer(thinking("new", signature="new"), text("one, "), stop="max_tokens")
    stage = Stage(refusal, cut, cut, answer(text("two")), answer(text("later")), **settings)
    thought = Message(role="assistant", content=[ThinkingBlock(thinking="hm", signature="old"), TextBlock(text="yes")])
    response = await stage.complete("go", thought, "on")
    assert response.content[-1].text == "one, one, two" and len(stage.sent) == 4
    await stage.complete("go", thought, "on")
    signatures = [
        [block["signature"] for one in sent["messages"] for block in one["content"] if block["type"] == "thinking"]
        for sent in stage.sent
    ]
    assert signatures == [["old"], [], ["new"], ["new", "new"], []] and stage.waits == []
    assert ["budget_tokens" in sent.get("thinking", {}) for sent in stage.sent[1:4]] == [False] * 3


# --- failures


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (
            refused(401, "authentication_error", "invalid x-api-key"),
            llm_errors.AuthenticationError,
            "the key in `api_key`",
        ),
        (refused(402, "billing_error", "no money"), llm_errors.QuotaExceededError, "balance"),
        (refused(400, "invalid_request_error", "Your credit balance is too low"), llm_errors.QuotaExceededError, "bal"),
        (refused(403, "permission_error", "not yours"), llm_errors.AccessDeniedError, "workspace"),
        (refused(404, "not_found_error", "model: m"), llm_errors.NotFoundError, "one that `list_models` names"),
        (refused(413, "request_too_large", "too big"), llm_errors.ContextLengthError, "Clear or compact"),
        (refused(400, "invalid_request_error", "prompt is too long: 9"), llm_errors.ContextLengthError, "compact"),
        (refused(400, "invalid_request_error", "tools.0: bad"), llm_errors.InvalidRequestError, "tools.0: bad"),
        (refused(429, "rate_limit_error", "slow"), llm_errors.RateLimitError, "Wait"),
        (refused(500, "api_error", "oops"), llm_errors.ProviderUnavailableError, "later"),
        (refused(504, "timeout_error", "slow"), llm_errors.LLMTimeoutError, "Ask again"),
        (httpx2.Response(502, html="<html>Bad Gateway</html>"), llm_errors.ProviderUnavailableError, "page in HTML"),
        (httpx2.Response(200, html="<html>Sign in</html>"), llm_errors.ProviderUnavailableError, "`base_url`"),
        (httpx2.ConnectError("refused"), llm_errors.NetworkError, "net: [api.anthropic.com]"),
        (refused(403, "", "no grant", proxy_status="paddock"), llm_errors.NetworkError, "and not the server"),
        (httpx2.ProxyError("403 Forbidden"), llm_errors.NetworkError, "net: [api.anthropic.com]"),
        (httpx2.ReadTimeout("slow"), llm_errors.LLMTimeoutError, "`timeout_seconds`"),
        (answer(text("a"), stop="refusal"), llm_errors.ContentFilterError, "refuses to answer"),
        (answer(call("look", '{"at": '), stop="tool_use"), llm_errors.InvalidToolCallError, "called `look`"),
        (answer(call("look", "[1]"), stop="tool_use"), llm_errors.InvalidToolCallError, "no JSON object"),
        (answer(text("a"))[:3], llm_errors.StreamError, "in the middle"),
        (answer(text("a"))[3:], llm_errors.StreamError, "makes no sense"),
        ([{"type": "message_start"}], llm_errors.StreamError, "makes no sense"),
        ([{"type": "error", "error": {"type": "overloaded_error"}}], llm_errors.StreamError, "later"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
async def test_each_failure_is_the_contracts_and_says_what_to_do(given: Any, kind: type, says: str) -> None:
    stage = Stage(given, max_retries=0)
    with pytest.raises(kind) as raised:
        await stage.complete()
    assert type(raised.value) is kind and says in str(raised.value)
    assert (raised.value.model, "key" in repr(raised.value)) != (None, None)
    if kind is not llm_errors.InvalidToolCallError:
        assert raised.value.provider == "anthropic"


async def test_an_error_that_never_ends_is_tried_so_often_and_no_more() -> None:
    stage = Stage(*[refused(429, "rate_limit_error", "slow")] * 3, max_retries=2)
    with pytest.raises(llm_errors.RateLimitError, match="It was tried 3 times"):
        await stage.complete()
    assert len(stage.sent) == 3


async def test_without_a_key_nothing_is_asked() -> None:
    stage = Stage(api_key="")
    with pytest.raises(llm_errors.AuthenticationError, match="Set ANTHROPIC_API_KEY"):
        await stage.complete()
    assert "claude-sonnet-5-5" in [one.id for one in await stage.provider.list_models()]
    assert stage.sent == []


async def test_without_a_message_nothing_is_asked() -> None:
    stage = Stage()
    with pytest.raises(llm_errors.InvalidRequestError, match="no message"):
        await stage.complete("  ")


# --- configuration and packaging


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"modle": "x"}, "there is no setting `modle`; there are"),
        ({"key_place": "x"}, "there is no setting `key_place`"),
        ({"api_key": 7}, "`api_key` must be a line of text, not what it is"),
        ({"base_url": "ftp://x"}, "`base_url` must be an address"),
        ({"max_output_tokens": 0}, "`max_output_tokens` must be a whole number of at least 1"),
        ({"max_retries": True}, "`max_retries` must be"),
        ({"max_retry_delay": float("inf")}, "`max_retry_delay` must be"),
        ({"max_retry_delay": 10**400}, "`max_retry_delay` must be"),
        ({"prompt_caching": "yes"}, "`prompt_caching` must be true or false"),
        ({"reasoning_effort": "huge"}, "`reasoning_effort` must be one of low"),
        ({"thinking": 100}, "`thinking` must be auto, adaptive, off"),
        ({"thinking": 64_000}, "below `max_output_tokens`"),
        ({"priority": 1.5}, "`priority` must be a whole number"),
        ({"prices": {"m": {"input_per_million": 1}}}, "`prices.m` must have"),
        ({"prices": {"m": {"input_per_million": -1, "output_per_million": 1}}}, "must be a price"),
    ],
)
async def test_a_wrong_setting_is_refused_at_mount(config: dict[str, Any], says: str) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError) as raised:
        await mount(coordinator, config)
    assert says in str(raised.value)
    assert coordinator.get("providers") == {}


async def test_it_mounts_with_nothing_and_says_what_it_is() -> None:
    coordinator = MockCoordinator()
    close = await mount(coordinator)
    provider = coordinator.get("providers")["anthropic"]
    assert isinstance(provider, AnthropicProvider)
    info = provider.get_info()
    assert (info.id, info.credential_env_vars) == ("anthropic", ["ANTHROPIC_API_KEY"])
    assert info.defaults == {"model": "claude-sonnet-5-5", "context_window": 1_000_000, "max_output_tokens": 32_000}
    assert await coordinator.collect_contributions("session.cost") == [{"cost_usd": None}]
    await close()


def test_settings_come_from_the_environment_where_the_plan_has_none() -> None:
    environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    assert (Settings.of({}, environ).api_key, Settings.of({}, environ).base_url) == ("k", "http://127.0.0.1:1")
    assert "k'" not in repr(Settings.of({}, environ))
    assert Settings.of({}, environ).key_place == "ANTHROPIC_API_KEY"
    assert Settings.of({"api_key": "mine"}, environ).key_place == "`api_key`"


async def test_models_are_listed_with_what_is_known_of_them() -> None:
    listed = {
        "data": [
            {"id": "claude-haiku-4-5-20251001", "display_name": "Haiku", "type": "model", "max_input_tokens": 300},
            {"id": "claude-next", "display_name": "", "type": "model"},
        ],
        "has_more": False,
    }
    provider = AnthropicProvider(
        Settings.of({"api_key": "key"}, {}),
        transport=httpx2.MockTransport(lambda request: httpx2.Response(200, json=listed)),
    )
    known, unknown = await provider.list_models()
    assert (known.display_name, known.context_window, known.max_output_tokens) == ("Haiku", 300, 64_000)
    assert known.pricing is not None and known.pricing.cache_write_per_million == 1.25
    assert (unknown.display_name, unknown.context_window, unknown.pricing) == ("claude-next", 200_000, None)
    await provider.close()


async def test_requests_may_name_their_model() -> None:
    stage = Stage(answer(text("a")))
    await stage.provider.complete(ChatRequest(messages=[Message(role="user", content="x")], model="claude-opus-5"))
    assert stage.sent[0]["model"] == "claude-opus-5"
