"""The shipped provider for Anthropic's models, in process, against a server that is as strict as the vendor."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio.to_thread
import pytest
from amplifier_core import llm_errors
from amplifier_core.message_models import ChatRequest, ChatResponse, Message, ToolSpec
from amplifier_module_provider_anthropic import AnthropicProvider, Settings

from modules.scene import VENDORS, Scene, scenes
from vendors.script import Script

_LOOK = ToolSpec(name="look", description="looks", parameters={"type": "object", "properties": {"at": {}}})
_USER = Message(role="user", content="go")

Open = Callable[..., Scene[AnthropicProvider]]


@pytest.fixture
async def scene() -> AsyncIterator[Open]:
    async with scenes(*VENDORS["anthropic"]) as begin:
        yield begin


def ask(*messages: Message, **more: Any) -> ChatRequest:
    return ChatRequest(messages=list(messages or [_USER]), **more)


def answered(response: ChatResponse, *results: str) -> list[Message]:
    """Return a reply and the results of its calls as a loop stores them, and its context gives them out again."""
    content = [block.model_dump(exclude_none=True) for block in response.content]
    said: list[dict[str, Any]] = [{"role": "assistant", "content": content}]
    for call, result in zip(response.tool_calls or (), results, strict=False):
        said.append({"role": "tool", "name": call.name, "tool_call_id": call.id, "content": result})
    return [Message.model_validate(one) for one in said]


@pytest.mark.parametrize("thought", ["hm, yes", "[redacted] hm"])
async def test_a_turn_with_tools_sends_its_thinking_back_as_it_came(scene: Open, thought: str) -> None:
    calls = [{"name": "look", "arguments": {"at": "a"}}, {"name": "look", "arguments": ""}]
    played = scene(
        [{"reasoning": thought, "text": "I look.", "tool_calls": calls}, {"reasoning": "so", "text": "Seen."}, "Bye."],
        quirks=["binds_thinking"],
    )
    said = [Message(role="system", content="Be brief."), _USER]
    first = await played.provider.complete(ask(*said, tools=[_LOOK]))
    said += answered(first, "one", "two")
    second = await played.provider.complete(ask(*said, tools=[_LOOK]))
    said += [*answered(second), Message(role="user", content="bye")]
    await played.provider.complete(ask(*said, tools=[_LOOK]))
    assert not played.server.refusals and not played.slept
    sent = played.sent[-1]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant", "user"]
    kind, field = ("redacted_thinking", "data") if "redacted" in thought else ("thinking", "signature")
    assert (sent[1]["content"][0]["type"], sent[3]["content"][0]["type"]) == (kind, "thinking")
    assert sent[1]["content"][0][field] == getattr(first.content[0], field)
    assert [block["content"] for block in sent[2]["content"]] == ["one", "two"]


async def test_a_conversation_that_changed_goes_on_without_its_thinking(scene: Open) -> None:
    turns = [{"reasoning": "hm", "tool_calls": [{"name": "look"}]}, "Seen.", "Bye."]
    played = scene(turns, quirks=["binds_thinking"])
    first = await played.provider.complete(ask(tools=[_LOOK]))
    changed = [Message(role="user", content="summary"), *answered(first, "x")]
    response = await played.provider.complete(ask(*changed, tools=[_LOOK]))
    assert response.content[0].text == "Seen."
    assert "different conversation" in played.server.refusals[0]
    await played.provider.complete(ask(*changed, tools=[_LOOK]))
    assert len(played.server.refusals) == 1  # it is not sent again


async def test_a_model_that_thinks_by_a_number_takes_calls_made_without_thinking(scene: Open) -> None:
    played = scene(["Seen."], {"thinking": 1024})
    call = {"type": "tool_call", "id": "c1", "name": "look", "input": {}}
    said = [_USER, Message.model_validate({"role": "assistant", "content": [call]})]
    said.append(Message(role="tool", tool_call_id="c1", content="x"))
    assert (await played.provider.complete(ask(*said, tools=[_LOOK]))).content[0].text == "Seen."
    assert "Expected `thinking`" in played.server.refusals[0] and "thinking" not in played.sent[1]


async def test_a_broken_conversation_is_taken_and_its_repair_announced_once(scene: Open) -> None:
    played = scene(["a", "b"])
    call = {"type": "tool_call", "id": "c1", "name": "look", "input": {}}
    broken = [
        Message(role="tool", tool_call_id="c0", content="of no call"),
        _USER,
        Message.model_validate({"role": "assistant", "content": [call]}),
        Message(role="user", content="never mind"),
    ]
    for _ in range(2):
        await played.provider.complete(ask(*broken, tools=[_LOOK]))
    (told,) = played.told("provider:tool_sequence_repaired")
    assert (told["repair_count"], told["dropped_results"]) == (2, ["c0"])
    assert told["repairs"] == [{"tool_call_id": "c1", "tool_name": "look"}]
    assert not played.server.refusals


async def test_a_cut_answer_is_continued_as_the_vendor_takes_it(scene: Open) -> None:
    cut = {"reasoning": "hm", "text": ["one ", "two "], "finish": "max_tokens"}
    played = scene([cut, {**cut, "reasoning": "so", "text": ["three "]}, "four"], quirks=["binds_thinking"])
    response = await played.provider.complete(ask(tools=[_LOOK]))
    assert "".join(text for kind, text in played.shown if kind == "text") == "one two three four"
    assert [block.type for block in response.content] == ["thinking", "text"]
    assert response.content[1].text == "one two three four"
    again = ask(_USER, *answered(response), _USER, tools=[_LOOK])
    played.server.script.give_back(played.server.script.turns[-1])
    await played.provider.complete(again)
    assert not played.server.refusals


async def test_a_cancelled_answer_closes_its_connection(scene: Open) -> None:
    played = scene([{"text": ["half", "whole"], "faults": [{"kind": "stall", "after": 4}]}, "next"])
    reading = asyncio.create_task(played.provider.complete(ask()))
    async with asyncio.timeout(60):
        await played.until_shown()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await anyio.to_thread.run_sync(played.server.wait_until, lambda: played.server.answers[0].is_abandoned)
    assert (await played.provider.complete(ask())).content[0].text == "halfwhole"


@pytest.mark.parametrize(
    ("turn", "config", "script", "kind", "says"),
    [
        ("a" * 900, {}, {"context_tokens": 1}, llm_errors.ContextLengthError, "Clear or compact it"),
        ([{"kind": "garble"}], {}, {}, llm_errors.ProviderUnavailableError, "instead of events"),
        ([{"kind": "cut", "after": 4, "times": -1}], {}, {}, llm_errors.StreamError, "broke off"),
        ([{"kind": "garble", "after": 4, "times": -1}], {}, {}, llm_errors.StreamError, "Ask again"),
        ([{"kind": "error_event", "after": 4, "times": -1}], {}, {}, llm_errors.StreamError, "Ask again later"),
        (
            [{"kind": "stall", "after": 4}],
            {"timeout_seconds": 0.2, "max_retries": 0},
            {},
            llm_errors.LLMTimeoutError,
            "`timeout_seconds`",
        ),
        ([{"kind": "content_filter"}], {}, {}, llm_errors.ContentFilterError, "differently"),
    ],
    ids=lambda value: "",
)
async def test_bad_input_gets_the_contracts_error_and_the_session_goes_on(
    scene: Open, turn: Any, config: dict[str, Any], script: dict[str, Any], kind: type[Exception], says: str
) -> None:
    bad = {"text": ["one", "two"], "faults": turn} if isinstance(turn, list) else turn
    played = scene([bad], config, **script)
    with pytest.raises(kind) as raised:
        await played.provider.complete(ask(tools=[_LOOK]))
    assert type(raised.value) is kind and says in str(raised.value), str(raised.value)
    assert len(played.slept) <= 4
    if not config and not script:
        played.server.script = Script(["next"])
        assert (await played.provider.complete(ask())).content[0].text == "next"


async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as unused:  # bound and never listening: no other process gets the port
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}"
        provider = AnthropicProvider(Settings.of({"base_url": f"http://{host}", "api_key": "k", "max_retries": 0}, {}))
        for asked in (provider.complete(ask()), provider.list_models()):
            with pytest.raises(llm_errors.NetworkError, match=f"{host} cannot be reached"):
                await asked
        await provider.close()
