"""The provider without a server: how it reads a configuration, a conversation, and the parts of an answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from decimal import Decimal
from typing import Any

import httpx
import openai
import pytest
from amplifier_core import llm_errors
from amplifier_core.message_models import ChatRequest, ImageBlock, Message, TextBlock, ToolSpec, Usage
from amplifier_core.testing import create_test_coordinator
from amplifier_module_provider_openai import Catalogue, OpenAIProvider, Settings, mount
from amplifier_module_provider_openai.asking import asking
from amplifier_module_provider_openai.conversation import written
from amplifier_module_provider_openai.failures import ErrorPlace, failure_of
from amplifier_module_provider_openai.reply import Reply

pytestmark = pytest.mark.anyio

_LOCAL = {"base_url": "http://127.0.0.1:11434/v1", "default_model": "small"}


class FakeEndpoint:
    """Sends scripted parts, and remembers the bodies of requests."""

    def __init__(self, *answers: list[Any]) -> None:
        self.answers = list(answers)
        self.bodies: list[Mapping[str, Any]] = []
        self.is_closed = False

    async def chunks(self, body: Mapping[str, Any], timeout: float | None = None) -> AsyncGenerator[Any, None]:
        self.bodies.append(body)
        for part in self.answers.pop(0):
            if isinstance(part, Exception):
                raise part
            yield part

    def broken_off(self, model: str, why: str) -> llm_errors.LLMError:
        return llm_errors.StreamError(why, model=model)

    async def close(self) -> None:
        self.is_closed = True


def _part(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def _provider(endpoint: FakeEndpoint, **config: Any) -> OpenAIProvider:
    async def sleep(seconds: float) -> None:
        """Wait for nothing."""

    settings = Settings.of({**_LOCAL, **config}, {})
    return OpenAIProvider(settings, endpoint, sleep=sleep, chance=lambda: 1.0)  # type: ignore[arg-type]


def _ask(**more: Any) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content="hello")], **more)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"modell": "x"}, "`modell`"),
        ({"key_place": "x"}, "there is no setting `key_place`"),
        ({"max_retries": -1}, "`max_retries` must be a whole number of at least 0"),
        ({"max_retries": True}, "`max_retries`"),
        ({"priority": "first"}, "`priority`"),
        ({"timeout_seconds": 0}, "`timeout_seconds`"),
        ({"temperature": "hot"}, "`temperature`"),
        ({"temperature": float("nan")}, "`temperature` must be a number of at least 0, not nan"),
        ({"max_retry_delay": float("inf")}, "`max_retry_delay` must be a number of at least 0, not inf"),
        ({"timeout_seconds": 10**400}, "`timeout_seconds` must be a number of at least 0.001"),
        ({"stream": "yes"}, "`stream` must be true or false"),
        ({"api_key": ["sk-secret"]}, "`api_key` must be a line of text, not what it is"),
        ({"base_url": "127.0.0.1:11434"}, "`base_url` must be an address"),
        ({"base_url": "http://127.0.0.1:11434/v1"}, "`default_model` is missing"),
        ({"prices": {"small": {"input_per_million": 1}}}, "`prices.small` must have"),
        ({"prices": {"small": {"input_per_million": "a", "output_per_million": 1}}}, "input_per_million must be"),
        ({"prices": []}, "`prices` must be a mapping"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_by_name(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        Settings.of(config, {})
    assert words in str(caught.value) and "sk-secret" not in str(caught.value)


def test_the_key_and_the_address_come_from_the_environment_last() -> None:
    environ = {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "https://eu.api.openai.com/v1"}
    found = Settings.of({}, environ)
    assert (found.api_key, found.base_url, found.is_openai) == ("sk-1", environ["OPENAI_BASE_URL"], True)
    assert "sk-1" not in repr(found)
    given = Settings.of({**_LOCAL, "api_key": "sk-2"}, environ)
    assert (given.api_key, given.base_url, given.is_openai) == ("sk-2", _LOCAL["base_url"], False)
    assert not Settings.of({"base_url": "https://openai.com.evil.example/v1", "default_model": "x"}, {}).is_openai


async def test_it_is_mounted_without_a_key_under_its_name_and_closed_in_the_end() -> None:
    coordinator = create_test_coordinator()
    close = await mount(coordinator, {"name": "mine"})
    provider = coordinator.get("providers", "mine")
    assert provider.get_info().defaults["context_window"] == 400_000
    assert provider.get_info().credential_env_vars == ["OPENAI_API_KEY"]
    assert await coordinator.collect_contributions("session.cost") == [{"cost_usd": None}]
    await close()


def test_roles_and_blocks_are_written_as_the_service_reads_them() -> None:
    image = ImageBlock(source={"type": "base64", "media_type": "image/png", "data": "AAAA"})
    call = {"type": "tool_call", "id": "c1", "name": "look at", "input": {"a": 1}}
    result = {"type": "tool_result", "tool_call_id": "c1", "output": {"b": 2}}
    messages = [
        Message(role="developer", content="be brief"),
        Message(role="user", content=[TextBlock(text="what is this?"), image]),
        Message(role="assistant", content=[{"type": "thinking", "thinking": "hm", "signature": "s"}]),
        Message(role="assistant", content=[TextBlock(text="I look."), call]),
        Message(role="function", content=[result]),
        Message(role="user", content=""),
        Message(role="assistant", content="", tool_calls=[{"id": "c2", "tool": "look", "arguments": {}}]),
        Message(role="tool", tool_call_id="c2", content=[TextBlock(text="a"), image]),
    ]
    entries, repair = written(messages, is_openai=True)
    assert [entry["role"] for entry in entries] == ["developer", "user", "assistant", "tool", "assistant", "tool"]
    assert entries[1]["content"][1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert entries[2]["content"] == "I look."
    assert entries[2]["tool_calls"][0]["function"] == {"name": "look_at", "arguments": '{"a": 1}'}
    assert entries[3] == {"role": "tool", "tool_call_id": "c1", "content": '{"b": 2}'}
    assert entries[5]["content"].startswith("a\n\n[an image")
    assert not repair.calls and not repair.dropped
    assert written(messages[:1], is_openai=False)[0][0]["role"] == "system"


def test_results_are_moved_behind_their_calls_also_where_ids_come_again() -> None:
    def call(id: str) -> Message:
        return Message(role="assistant", content="", tool_calls=[{"id": id, "name": "look", "arguments": "{}"}])

    def result(id: str, text: str) -> Message:
        return Message(role="tool", tool_call_id=id, content=text)

    hook = Message(role="system", content="a hook says")
    messages = [call("a"), hook, result("a", "one"), call("a"), result("a", "two"), call("b"), result("a", "three")]
    entries, repair = written(messages, is_openai=True)
    assert [entry.get("content") for entry in entries][:5] == [None, "one", "a hook says", None, "two"]
    assert (repair.calls, repair.dropped) == ((("b", "look"),), ("a",))
    assert "no result" in entries[-1]["content"]


def test_a_request_says_what_each_service_understands() -> None:
    tool = ToolSpec(name="look", parameters={})
    request = _ask(tools=[tool], tool_choice="look", temperature=0.5, max_output_tokens=9, stop=["."], timeout=3.0)
    local = Settings.of(_LOCAL, {})
    there = asking(request, {}, "small", Catalogue({}, is_openai=False).of("small"), local)
    assert (there.body["max_tokens"], there.body["temperature"], there.body["stop"]) == (9, 0.5, ["."])
    assert there.body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert there.body["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert there.timeout == 3.0
    own = Settings.of({"reasoning_effort": "low"}, {})
    here = asking(request, {"max_output_tokens": 4}, "gpt-5", Catalogue({}, is_openai=True).of("gpt-5"), own)
    assert here.body["max_completion_tokens"] == 4 and here.body["reasoning_effort"] == "low"
    assert not {"max_tokens", "temperature", "stop"} & set(here.body)
    with pytest.raises(llm_errors.InvalidRequestError, match="nothing to send"):
        asking(ChatRequest(messages=[]), {}, "small", Catalogue({}, is_openai=False).of("small"), local)


def test_prices_are_dated_and_hold_for_snapshots_and_for_openai_alone() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000, total_tokens=2_000_000, cache_read_tokens=400_000)
    own = Catalogue({}, is_openai=True)
    snapshot = own.of("gpt-4o-2024-08-06").prices
    assert snapshot is not None and snapshot.cost(usage) == Decimal("12")
    assert own.of("gpt-9").prices is None and own.of("gpt-9").reasons
    assert Catalogue({}, is_openai=False).of("gpt-4o").prices is None
    given = Catalogue.prices_of({"gpt-4o": {"input_per_million": 1, "output_per_million": 1}})
    replaced = Catalogue(given, is_openai=True).of("gpt-4o")
    assert replaced.prices is not None and replaced.prices.cost(usage) == Decimal(2)
    assert replaced.context_window == 128_000


async def test_a_model_without_a_price_and_a_server_without_usage_have_no_cost() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    endpoint = FakeEndpoint([_part({"content": "a"}, "stop", usage=usage)], [_part({"content": "b"}, "stop")])
    provider = _provider(endpoint)
    counted, uncounted = await provider.complete(_ask()), await provider.complete(_ask())
    assert counted.usage is not None and (counted.usage.total_tokens, counted.usage.cost_usd) == (5, None)
    assert uncounted.usage is None and provider.cost() == {"cost_usd": None}


@pytest.mark.parametrize(
    "part",
    [
        None,
        [],
        "text",
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": "text"}]},
        {"choices": [{"delta": {"content": 7, "tool_calls": "no"}}]},
        {"choices": [{"delta": {"tool_calls": []}}]},
        {"usage": {"prompt_tokens": "many", "completion_tokens": None}},
    ],
    ids=str,
)
async def test_parts_that_say_nothing_are_passed_over(part: Any) -> None:
    endpoint = FakeEndpoint([part, _part({"content": "said"}), part, _part(finish="stop")])
    response = await _provider(endpoint).complete(_ask())
    assert [block.text for block in response.content] == ["said"] and response.usage is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("null", {}),
        ('{"a": 1}', {"a": 1}),
        (json.dumps('{"a": 1}'), {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ('{"a": ', None),
        ("[1]", None),
        ("7", None),
        ("[" * 100_000, None),
    ],
    ids=lambda value: str(value)[:12],
)
def test_arguments_are_an_object_or_the_call_is_refused(arguments: Any, expected: dict[str, Any] | None) -> None:
    reply = Reply()
    call = {"id": "c", "function": {"name": "look", "arguments": arguments}}
    list(reply.take(_part({"tool_calls": [call]}, "stop")))
    if expected is not None:
        [found] = reply.response("openai", "small").tool_calls or []
        assert (found.id, found.arguments) == ("c", expected)
        return
    with pytest.raises(llm_errors.InvalidToolCallError) as caught:
        reply.response("openai", "small")
    assert (caught.value.tool_name, caught.value.raw_arguments) == ("look", arguments)


def test_calls_side_by_side_are_told_apart_by_id_where_all_have_one_index() -> None:
    reply = Reply()
    for id, text in (("a", '{"x"'), ("b", '{"y"'), ("a", ": 1}"), ("b", ": 2}")):
        function = {"name": "look" if text.startswith("{") else None, "arguments": text}
        list(reply.take(_part({"tool_calls": [{"index": 0, "id": id, "function": function}]})))
    calls = reply.response("openai", "small").tool_calls or []
    assert [(call.id, call.arguments) for call in calls] == [("a", {"x": 1}), ("b", {"y": 2})]


async def test_an_answer_without_a_reason_for_its_end_has_broken_off() -> None:
    with pytest.raises(llm_errors.StreamError, match="without a reason"):
        await _provider(FakeEndpoint([_part({"content": "a"})]), max_retries=0).complete(_ask())


@pytest.mark.parametrize(
    ("error", "chance", "waits"),
    [
        (llm_errors.StreamError("x"), 0.0, [0.5, 1.0, 2.0, 4.0, 5.0]),
        (llm_errors.StreamError("x"), 1.0, [1.0, 2.0, 4.0, 8.0, 10.0]),
        (llm_errors.RateLimitError("x", retry_after=9.0), 1.0, [9.0, 9.0, 9.0, 9.0, 10.0]),
        (llm_errors.RateLimitError("x", retry_after=11.0), 0.0, []),
        (llm_errors.InvalidRequestError("x"), 0.0, []),
    ],
)
async def test_waits_are_bounded(error: llm_errors.LLMError, chance: float, waits: list[float]) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    settings = Settings.of({**_LOCAL, "max_retries": 5, "max_retry_delay": 10.0}, {})
    endpoint: Any = FakeEndpoint(*[[error]] * 6)
    with pytest.raises(type(error)):
        await OpenAIProvider(settings, endpoint, sleep=sleep, chance=lambda: chance).complete(_ask())
    assert waited == waits


@pytest.mark.parametrize(
    ("status", "headers", "path", "kind", "says"),
    [
        (404, {}, "", llm_errors.NotFoundError, "ends with /v1: see `base_url`"),
        (404, {}, "/v1", llm_errors.NotFoundError, "with `default_model`."),
        (403, {}, "/v1", llm_errors.AccessDeniedError, "what the key"),
        (403, {"Proxy-Status": "paddock"}, "/v1", llm_errors.NetworkError, "and not the server"),
    ],
)
def test_a_refusal_is_told_by_who_refused(
    status: int, headers: dict[str, str], path: str, kind: type, says: str
) -> None:
    reply = httpx.Response(status, headers=headers, request=httpx.Request("POST", "http://llm.test"))
    place = ErrorPlace("openai", f"http://llm.test{path}", "llm.test:80", is_openai=False)
    error = failure_of(openai.APIStatusError("no", response=reply, body=None), place, "m", has_begun=False)
    assert type(error) is kind and says in str(error)
