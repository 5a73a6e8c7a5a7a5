"""Providers and contexts of the community, unmodified: what they answer, raise, keep, and are asked in place."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from amplifier_core import llm_errors
from amplifier_core.message_models import ChatRequest, Message

from integration.community import community, listen, messages, script, settled
from integration.conftest import OpenSession

_PLAIN = community("loop-plain")


@pytest.mark.exhaustive
async def test_a_provider_without_info_serves_all_the_same(
    open_session: OpenSession,
) -> None:
    async with open_session(
        orchestrator=_PLAIN, providers=script("fine"), context=community("context-briefing")
    ) as session:
        provider = session.coordinator.get("providers", "terse")
        assert not hasattr(provider, "get_info") and not hasattr(provider, "list_models")
        assert not hasattr(provider, "stream")
        assert await session.execute("hello") == "fine"


async def test_a_vendors_own_response_class_keeps_blocks_state_and_costs(
    open_session: OpenSession,
) -> None:
    async with open_session(
        orchestrator=community("loop-plain", config={"extended_thinking": True}),
        providers=[*script("never asked"), community("provider-brook")],
    ) as session:
        ended = listen(session, "content_block:start", "content_block:end")
        before = await session.coordinator.collect_contributions("session.cost")
        answer = await session.execute("hello")
        after = await session.coordinator.collect_contributions("session.cost")
        [_, stored] = await messages(session)
        response = await session.coordinator.get("providers", "brook").complete(_asking("again"))
    assert answer == "after thinking: hello"
    assert [event.data["block_type"] for event in ended if "block_type" in event.data] == ["thinking", "text"]
    blocks = [event.data["block"] for event in ended if "block" in event.data]
    assert blocks == [{"type": "thinking", "text": "hm, hello"}, {"type": "text", "text": "after thinking: hello"}]
    assert stored["metadata"] == {"brook:state": ["r-1", {"cursor": 7, "most_at_once": 1}]}
    assert [before, after] == [[{"cost_usd": None}], [{"cost_usd": "0.0125"}]]
    assert [type(block).__name__ for block in response.content] == ["ThinkingBlock", "TextBlock"]
    assert response.content[0].signature == "brook-sig"
    assert [(type(block).__name__, block.type.value, block.raw) for block in response.content_blocks] == [
        ("ThinkingContent", "thinking", None),
        ("TextContent", "text", None),
    ]
    assert response.text == "you said again"
    assert response.usage.cost_usd == Decimal("0.0125")


def _asking(text: str) -> ChatRequest:
    return ChatRequest(messages=[Message(role="user", content=text)])


async def test_a_provider_is_known_by_its_data_and_answers_in_place(open_session: OpenSession) -> None:
    brook = community("provider-brook", config={"priority": 7, "default_model": "brook-9", "context_window": 123})
    async with open_session(orchestrator=_PLAIN, providers=[brook]) as session:
        provider = session.coordinator.get("providers", "brook")
        assert (provider.name, provider.priority, provider.default_model) == ("brook", 7, "brook-9")
        assert provider.config["priority"] == 7
        assert asyncio.iscoroutinefunction(provider.complete)
        assert not asyncio.iscoroutinefunction(provider.get_info)
        info = await settled(provider.get_info())
        assert info.defaults == {"context_window": 123, "max_output_tokens": 1000}
        assert [model.id for model in await provider.list_models()] == ["brook-1", "brook-2"]


@pytest.mark.exhaustive
async def test_a_provider_tries_again_and_allows_only_so_many_requests_at_once(open_session: OpenSession) -> None:
    brook = community("provider-brook", config={"failures": 1})
    async with open_session(orchestrator=_PLAIN, providers=[brook]) as session:
        events = listen(session, "llm:request", "provider:retry", "llm:response")
        assert await session.execute("hello") == "you said hello"
        provider = session.coordinator.get("providers", "brook")
        many = await asyncio.gather(*(provider.complete(_asking(str(number))) for number in range(6)))
    assert [event.event for event in events[:4]] == ["llm:request", "provider:retry", "llm:request", "llm:response"]
    assert events[1].data["error"] == {"type": "ProviderUnavailableError"}
    assert events[3].data["request"] == {"api_key": "[REDACTED]", "model": "brook-1"}
    assert sorted(response.text for response in many) == [f"you said {number}" for number in range(6)]
    assert max(response.metadata["brook:state"][1]["most_at_once"] for response in many) == 2


_LLM_ERRORS = [
    name
    for name, kind in vars(llm_errors).items()
    if isinstance(kind, type) and issubclass(kind, llm_errors.LLMError) and name != "InvalidToolCallError"
]


async def test_an_orchestrator_catches_a_providers_error_by_type(
    open_session: OpenSession,
) -> None:
    async with open_session(orchestrator=_PLAIN, providers=[community("provider-moody")]) as session:
        told = listen(session, "provider:error")
        for name in _LLM_ERRORS:
            with pytest.raises(getattr(llm_errors, name)) as caught:
                await session.execute(name)
            error: Any = caught.value
            assert type(error).__name__ == name
            assert str(error) == f"raised {name}"
            carried = error.provider, error.model, error.status_code, error.retryable, error.retry_after
            assert carried == ("moody", "m-1", 418, True, 1.5)
            assert told[-1].data["error"] == {"type": name, "msg": f"raised {name}"}
            assert (told[-1].data["retryable"], told[-1].data["status_code"]) == (True, 418)
        with pytest.raises(llm_errors.InvalidToolCallError) as malformed:
            await session.execute("tool call")
        assert (malformed.value.tool_name, malformed.value.raw_arguments) == ("answer", "{oops")
        with pytest.raises(llm_errors.RateLimitError) as own:  # the nearest that everybody knows
            await session.execute("coffee")
        assert type(own.value) is llm_errors.RateLimitError
        assert (str(own.value), own.value.retry_after, own.value.retryable) == ("3 cups were not enough", 2.5, True)
        assert vars(own.value)["cups"] == 3
        for wish, kind in (("builtin timeout", TimeoutError), ("value", ValueError)):
            with pytest.raises(kind) as builtin:
                await session.execute(wish)
            assert type(builtin.value) is kind
            assert told[-1].data["error"]["type"] == kind.__name__
        assert await session.execute("well") == "in a good mood"


@pytest.mark.exhaustive
async def test_an_applications_briefing_is_made_anew_for_each_request(
    open_session: OpenSession,
) -> None:
    made: list[int] = []
    async with open_session(
        orchestrator=_PLAIN,
        providers=script([{"answer": {}}], "{messages}"),
        tools=[community("tool-answers")],
        context=community("context-briefing"),
    ) as session:
        context = session.coordinator.get("context")

        async def briefing() -> str:
            # It asks the context that is waiting for it.
            made.append(len(await context.get_messages()))
            return f"briefing {len(made)}"

        await context.set_system_prompt_factory(briefing)
        answer = await session.execute("hello")
    assert made == [1, 3]
    assert answer.startswith("briefing 2 | hello")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "window", [10, pytest.param(9000, marks=pytest.mark.exhaustive)], ids=["small window", "large window"]
)
async def test_a_context_asks_the_provider_it_is_handed_how_much_fits(open_session: OpenSession, window: int) -> None:
    async with open_session(
        orchestrator=_PLAIN,
        providers=[community("provider-brook", config={"context_window": window})],
        context=community("context-briefing"),
    ) as session:
        compacted = listen(session, "context:compaction")
        for prompt in ("a prompt of some length", "another"):
            await session.execute(prompt)
    assert [event.data["removed"] for event in compacted] == ([1] if window == 10 else [])


@pytest.mark.exhaustive
async def test_a_kept_conversation_is_found_by_the_projects_path(open_session: OpenSession, tmp_path: Path) -> None:
    diary = community("context-diary", state="keep")
    for prompt, expected in (("one", "one"), ("two", "one | one | two")):
        async with open_session(
            orchestrator=_PLAIN, providers=script("{messages}"), context=diary, session_id="kept"
        ) as session:
            assert await session.execute(prompt) == expected
    async with open_session(
        orchestrator=_PLAIN, providers=script("{messages}"), context=diary, session_id="another"
    ) as session:
        assert await session.execute("three") == "three"
