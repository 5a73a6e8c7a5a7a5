"""The scripted provider: its script, its protocol and its configuration errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from amplifier_core import llm_errors
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, TextBlock
from amplifier_core.models import HookResult, ProviderInfo
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_mock import mount

pytestmark = pytest.mark.anyio


async def mounted(config: dict[str, Any] | None = None) -> Any:
    coordinator = MockCoordinator()
    assert await mount(coordinator, config) is None
    (provider,) = coordinator.get("providers").values()
    return provider


def asking(*messages: dict[str, Any]) -> ChatRequest:
    return ChatRequest(messages=[Message(**message) for message in messages or ({"role": "user", "content": "hello"},)])


def said(response: ChatResponse) -> str:
    return "".join(block.text for block in response.content if isinstance(block, TextBlock))


async def test_replies_follow_the_script_then_the_fallback() -> None:
    provider = await mounted({"responses": ["one", {"text": "two"}], "fallback": "over"})

    responses = [await provider.complete(asking()) for _ in range(4)]

    assert [said(one) for one in responses] == ["one", "two", "over", "over"]
    assert (responses[0].finish_reason, provider.parse_tool_calls(responses[0])) == ("stop", [])


@pytest.mark.parametrize(("responses", "expected"), [([], "no scripted replies"), (["a"], "all 1 scripted replies")])
async def test_the_default_fallback_says_that_the_script_is_over(responses: list[str], expected: str) -> None:
    provider = await mounted({"responses": responses})
    for _ in responses:
        await provider.complete(asking())

    assert expected in said(await provider.complete(asking()))


async def test_placeholders_stand_for_the_prompt_and_the_last_tool_result() -> None:
    provider = await mounted({"fallback": "{prompt} gave {last_tool_result}; {other} stays"})
    assert said(await provider.complete(asking())) == "hello gave ; {other} stays"
    request = asking(
        {"role": "user", "content": "an earlier prompt"},
        {"role": "user", "content": [{"type": "text", "text": "list {last_tool_result}"}]},
        {"role": "tool", "tool_call_id": "1", "content": "first"},
        {"role": "tool", "tool_call_id": "2", "content": "a.txt {prompt}"},
        {"role": "user", "content": "a hook's remark", "metadata": {"source": "hook"}},
    )

    # What is filled in is not a template itself.
    assert said(await provider.complete(request)) == "list {last_tool_result} gave a.txt {prompt}; {other} stays"


async def test_tool_calls_are_numbered_parsed_and_shown_as_blocks() -> None:
    calls = [{"name": "read", "arguments": {"path": "a"}}, {"id": "mine", "name": "list"}]
    provider = await mounted({"responses": ["skip", {"thinking": "hm", "text": "let me see", "tool_calls": calls}]})
    await provider.complete(asking())

    response = await provider.complete(asking())

    found = provider.parse_tool_calls(response)
    assert [(call.id, call.name, call.arguments) for call in found] == [
        ("mock_call_2_1", "read", {"path": "a"}),
        ("mine", "list", {}),
    ]
    assert [block.type for block in response.content] == ["thinking", "text", "tool_call", "tool_call"]
    assert response.content[0].signature == "mock-signature-2"
    assert [block.id for block in response.content[2:]] == ["mock_call_2_1", "mine"]
    assert response.finish_reason == "tool_calls"


async def test_changing_one_reply_does_not_change_the_script() -> None:
    call = {"name": "read", "arguments": {"paths": ["a"]}}
    provider = await mounted({"fallback": {"tool_calls": [call]}})
    first = await provider.complete(asking())
    first.tool_calls[0].arguments["paths"].append("b")

    second = await provider.complete(asking())

    assert second.tool_calls[0].arguments == {"paths": ["a"]}
    assert call["arguments"] == {"paths": ["a"]}


async def test_usage_is_reported_and_grows_with_the_conversation() -> None:
    provider = await mounted({"fallback": "ok"})
    short = (await provider.complete(asking())).usage
    long = (await provider.complete(asking({"role": "user", "content": "word " * 1000}))).usage

    assert short.input_tokens > 0
    assert short.output_tokens > 0
    assert short.total_tokens == short.input_tokens + short.output_tokens
    assert long.input_tokens > short.input_tokens + 1000


async def test_a_scripted_error_has_its_details_and_the_next_call_works() -> None:
    error = {"type": "RateLimitError", "message": "slow down", "retry_after": 2.5, "status_code": 429}
    provider = await mounted({"responses": [{"error": error}, "after"], "default_model": "m1"})

    with pytest.raises(llm_errors.RateLimitError, match="slow down") as caught:
        await provider.complete(asking())

    raised = caught.value
    assert (raised.retryable, raised.retry_after, raised.status_code) == (True, 2.5, 429)
    assert (raised.provider, raised.model) == ("mock", "m1")
    assert said(await provider.complete(asking())) == "after"


async def test_the_script_decides_whether_an_error_is_retryable() -> None:
    error = {"type": "InvalidRequestError", "retryable": True, "model": "theirs"}
    provider = await mounted({"responses": [{"error": error}]})
    with pytest.raises(llm_errors.InvalidRequestError) as caught:
        await provider.complete(asking())
    assert caught.value.retryable
    assert caught.value.model == "theirs"


@pytest.mark.parametrize(
    "kind", [name for name, value in vars(llm_errors).items() if isinstance(value, type) and name.endswith("Error")]
)
async def test_every_error_class_can_be_scripted(kind: str) -> None:
    provider = await mounted({"responses": [{"error": {"type": kind}}]})
    with pytest.raises(getattr(llm_errors, kind)) as caught:
        await provider.complete(asking())
    assert type(caught.value).__name__ == kind


async def test_a_delayed_reply_waits_and_a_cancelled_one_is_used_up() -> None:
    provider = await mounted({"responses": [{"text": "late", "delay": 3600}, "next"]})
    waiting = asyncio.create_task(provider.complete(asking()))
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert said(await provider.complete(asking())) == "next"


async def test_replies_that_overlap_keep_their_own_ids() -> None:
    call = {"tool_calls": [{"name": "a"}], "delay": 0.001}
    provider = await mounted({"responses": [call, call]})
    responses = await asyncio.gather(provider.complete(asking()), provider.complete(asking()))
    assert [response.tool_calls[0].id for response in responses] == ["mock_call_1_1", "mock_call_2_1"]


async def test_the_provider_tells_what_it_is() -> None:
    config = {
        "name": "second",
        "default_model": "m1",
        "context_window": 5000,
        "max_output_tokens": 100,
        "priority": 7,
    }
    provider = await mounted(config)

    info = provider.get_info()
    (model,) = await provider.list_models()

    assert isinstance(info, ProviderInfo)
    assert (provider.name, provider.priority, provider.default_model, info.id) == ("second", 7, "m1", "second")
    assert info.defaults == {"model": "m1", "context_window": 5000, "max_output_tokens": 100}
    assert (model.id, model.context_window, model.max_output_tokens) == ("m1", 5000, 100)


async def test_with_deltas_an_answer_is_emitted_word_by_word() -> None:
    coordinator, heard = MockCoordinator(), []

    async def note(event: str, data: dict[str, Any]) -> HookResult:
        heard.append(data)
        return HookResult()

    coordinator.hooks.register("llm:stream_block_delta", note)
    await mount(coordinator, {"responses": [{"thinking": "well", "text": "good day"}], "deltas": True})
    provider = coordinator.get("providers")["mock"]
    request = asking()
    request.metadata = {"turn_id": "t", "iteration": 1, "other": "x"}
    await provider.complete(request)
    about = {"provider": "mock", "turn_id": "t", "iteration": 1, "request_id": "mock_1"}
    pieces = [
        {**about, "block_type": "thinking", "block_index": 0, "sequence": 0, "text": "well"},
        {**about, "block_type": "text", "block_index": 1, "sequence": 0, "text": "good"},
        {**about, "block_type": "text", "block_index": 1, "sequence": 1, "text": " day"},
    ]
    assert [{name: one[name] for name in pieces[0]} for one in heard] == pieces
    assert not any("other" in one for one in heard)
    request.metadata = {"stream": False}
    await provider.complete(request)
    assert len(heard) == 3  # nobody reads an answer to such a question
    assert not hasattr(provider, "stream")  # which loops of the community take for another protocol


async def test_answers_cost_what_the_configured_prices_say() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator, {"fallback": "yes", "prices": {"input_per_million": 1, "output_per_million": 0.5}})
    provider = coordinator.get("providers")["mock"]
    used = [(await provider.complete(asking())).usage for _ in range(2)]
    expected = sum(one.input_tokens + one.output_tokens * 0.5 for one in used) / 1_000_000
    (cost,) = await coordinator.collect_contributions("session.cost")
    assert float(cost["cost_usd"]) == pytest.approx(expected)
    (model,) = await provider.list_models()
    assert (model.pricing.input_per_million, model.pricing.output_per_million) == (1, 0.5)


async def test_without_prices_answers_cost_nothing() -> None:
    provider = await mounted({"fallback": "yes"})
    await provider.complete(asking())
    assert provider.cost() == {"cost_usd": "0"}
    assert (await provider.list_models())[0].pricing is None


async def test_without_configuration_it_is_mounted_as_mock() -> None:
    coordinator = MockCoordinator()
    await mount(coordinator)
    assert list(coordinator.get("providers")) == ["mock"]
    assert coordinator.get("providers")["mock"].priority == 100


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"responses": "hello"}, "responses: expected a list, not str"),
        ({"responses": [3]}, r"responses\[0\]: expected a mapping"),
        ({"responses": ["a", {}]}, r"responses\[1\]: give either an `error`"),
        ({"responses": [{"text": "a", "error": {"type": "LLMError"}}]}, "give either an `error`"),
        ({"respones": []}, "config: unknown: `respones`; known are `responses`"),
        ({"responses": [{"txt": "a"}]}, r"unknown: `txt`; known are `text`"),
        ({"responses": [{"text": 5}]}, "`text` must be text, not int"),
        ({"responses": [{"text": "a", "delay": -1}]}, "`delay` must be a number of seconds"),
        ({"responses": [{"text": "a", "delay": float("nan")}]}, "`delay` must be a number of seconds"),
        ({"responses": [{"text": "a", "delay": True}]}, "`delay` must be a number of seconds"),
        ({"responses": [{"tool_calls": {"name": "a"}}]}, r"responses\[0\].tool_calls: expected a list"),
        ({"responses": [{"tool_calls": [{"arguments": {}}]}]}, r"tool_calls\[0\]: `name` is missing"),
        ({"responses": [{"tool_calls": [{"name": "a", "arguments": "x"}]}]}, r"tool_calls\[0\].arguments"),
        ({"responses": [{"tool_calls": [{"name": "a", "input": {}}]}]}, "unknown: `input`"),
        ({"responses": [{"error": "boom"}]}, r"responses\[0\].error: expected a mapping"),
        ({"responses": [{"error": {"message": "x"}}]}, "`type` is missing"),
        ({"responses": [{"error": {"type": "Boom"}}]}, "must name an LLM error class"),
        ({"responses": [{"error": {"type": "annotations"}}]}, "must name an LLM error class"),
        ({"responses": [{"error": {"type": "LLMError", "colour": 1}}]}, "`LLMError` does not take these details"),
        ({"fallback": {}}, "fallback: give either"),
        ({"name": ""}, "`name` is missing"),
        ({"priority": "high"}, "`priority` must be a whole number"),
        ({"context_window": 0}, "`context_window` must be at least 1"),
        ({"deltas": "yes"}, "`deltas` must be true or false, not str"),
        ({"prices": 3}, "prices: expected a mapping"),
        ({"prices": {"input_per_million": 1}}, "prices: `output_per_million` must be a number of US dollars"),
        ({"prices": {"input_per_million": -1, "output_per_million": 1}}, "`input_per_million` must be a number"),
        ({"context_window": 100, "max_output_tokens": 100}, "must be smaller"),
    ],
)
async def test_a_wrong_configuration_is_refused_at_mount_and_names_the_place(
    config: dict[str, Any], expected: str
) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=expected):
        await mount(coordinator, config)
    assert coordinator.get("providers") == {}
