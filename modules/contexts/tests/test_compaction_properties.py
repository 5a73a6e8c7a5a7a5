"""What holds of every request: pairs are whole, instructions and the last exchange stay, and it fits the model."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from amplifier_module_context_simple import Settings, SimpleContextManager
from amplifier_module_context_simple.compaction import whole
from amplifier_module_context_simple.entry import EntryFactory
from amplifier_module_context_simple.layout import is_complete, pieces_of
from amplifier_module_context_simple.tokens import ESTIMATE, TokenCounter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio

Message = dict[str, Any]
_TEXT = st.integers(0, 600).map(lambda size: "x" * size)
_tokens_of = TokenCounter(ESTIMATE).tokens_of
_factory = EntryFactory(TokenCounter(ESTIMATE), 1000)


@st.composite
def _conversations(draw: st.DrawFn) -> list[Message]:
    """Draw a conversation with calls of both shapes, answered in any order, late, twice, by nothing, or by surprise."""
    messages: list[Message] = [{"role": "system", "content": "rules"}] * draw(st.integers(0, 2))
    ids = iter(range(10_000))
    for _ in range(draw(st.integers(1, 6))):
        messages.append({"role": "user", "content": draw(_TEXT)})
        for _ in range(draw(st.integers(0, 4))):
            messages += _round(draw, [f"c{next(ids)}" for _ in range(draw(st.integers(1, 3)))])
        if draw(st.booleans()):
            messages.append({"role": "assistant", "content": [{"type": "text", "text": draw(_TEXT)}]})
    return messages


def _round(draw: st.DrawFn, ids: list[str]) -> list[Message]:
    blocks = draw(st.booleans())
    reply: Message = {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]}
    if blocks:
        reply["content"] += [{"type": "tool_call", "id": one, "name": "f", "input": {}} for one in ids]
    else:
        reply["tool_calls"] = [{"id": one, "name": "f", "arguments": {}} for one in ids]
    answered = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
    results = [_result(one, draw(_TEXT), blocks) for one in answered]
    between: list[list[Message]] = [
        [],
        [{"role": "system", "content": "hm", "metadata": {"source": "hook"}}],
        [{"role": "user", "content": "steer", "metadata": {"source": "hook"}}],
        [_result("absent", "lost", blocks)],
        results[:1],
    ]
    return [reply, *draw(st.sampled_from(between)), *results]


def _result(call_id: str, text: str, blocks: bool) -> Message:
    if not blocks:
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    return {"role": "function", "content": [{"type": "tool_result", "tool_call_id": call_id, "output": text}]}


def _calls(message: Message) -> list[str]:
    blocks = message["content"] if message["role"] == "assistant" else []
    found = [block["id"] for block in blocks if block.get("type") == "tool_call"]
    return found + [call["id"] for call in message.get("tool_calls", [])]


def _answers(message: Message) -> list[str]:
    if message["role"] not in ("tool", "function"):
        return []
    return [message["tool_call_id"]] if "tool_call_id" in message else [message["content"][0]["tool_call_id"]]


def _assert_no_orphans(view: list[Message]) -> None:
    """Each reply with calls is followed by one result for each of them, and no result stands elsewhere."""
    position = 0
    while position < len(view):
        assert not _answers(view[position])
        ids = _calls(view[position])
        following = view[position + 1 : position + 1 + len(ids)]
        assert sorted(ids) == sorted(one for message in following for one in _answers(message))
        position += 1 + len(ids)


def _said(messages: list[Message], role: str) -> list[str]:
    return [message["content"] for message in messages if message["role"] == role and "metadata" not in message]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(messages=_conversations(), budget=st.integers(1, 2500), keep=st.integers(1, 4))
async def test_every_view_can_be_sent(messages: list[Message], budget: int, keep: int) -> None:
    context = SimpleContextManager(Settings(keep_recent_turns=keep, tool_result_max_chars=40))
    await context.set_messages(copy.deepcopy(messages))

    view = await context.get_messages_for_request(token_budget=budget)

    _assert_no_orphans(view)
    assert _said(view, "system") == _said(messages, "system")
    prompts = _said(messages, "user")
    shown = _said(view, "user")
    assert shown == prompts[len(prompts) - len(shown) :]
    assert shown
    assert [m["content"][0] for m in view if _calls(m)] == [
        {"type": "thinking", "thinking": "t", "signature": "s"}
    ] * len([m for m in view if _calls(m)])
    if sum(map(_tokens_of, view)) > budget:  # then only what always stays is left of it: the last exchange
        assert len(shown) == 1
        assert sum(bool(_calls(message)) for message in view) <= 1
    else:
        whole = await context.get_messages_for_request(token_budget=10**9)
        recent = _said(whole, "user")[-keep:]
        if sum(map(_tokens_of, whole)) <= budget * 0.8:
            assert view == whole
        elif len(shown) < len(recent):  # recent exchanges go for nothing less than the budget
            assert sum(map(_tokens_of, whole)) > budget
    assert await context.get_messages() == messages


@settings(deadline=None)
@given(conversation=_conversations())
async def test_a_conversation_is_shown_as_it_stands_only_if_its_pieces_are(conversation: list[Message]) -> None:
    entries = [_factory.entry(message) for message in conversation]
    view = whole(pieces_of(entries, _factory))
    if is_complete(entries):
        assert view.messages == conversation
        assert view.tokens == sum(entry.tokens for entry in entries)
    else:
        assert view.messages != conversation
