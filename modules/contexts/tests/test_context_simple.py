"""The in-memory context: what it stores, what it shows, and what it leaves out when not all of it fits."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from amplifier_core.content_models import ContentBlockType, ToolCallContent
from amplifier_core.message_models import TextBlock, ToolCall, ToolCallBlock, ToolResultBlock
from amplifier_core.models import ProviderInfo
from amplifier_core.testing import MockCoordinator
from amplifier_module_context_simple import Settings, SimpleContextManager, mount
from amplifier_module_context_simple.context import EVENTS
from amplifier_module_context_simple.tokens import ESTIMATE, TokenCounter

pytestmark = pytest.mark.anyio

Message = dict[str, Any]

_FIELDS = (
    "before_tokens before_messages after_tokens after_messages removed_tokens removed_messages shortened_results "
    "strategy budget tokens_by message_count token_count"
).split()

tokens_of = TokenCounter(ESTIMATE).tokens_of


def total(messages: list[Message]) -> int:
    return sum(map(tokens_of, messages))


def user(text: str, **more: Any) -> Message:
    return {"role": "user", "content": text, **more}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def calling(*ids: str) -> Message:
    calls = [{"id": call_id, "name": "read", "arguments": {}} for call_id in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(call_id: str, text: str) -> Message:
    return {"role": "tool", "name": "read", "tool_call_id": call_id, "content": text}


def injected(text: str, role: str = "system") -> Message:
    return {"role": role, "content": text, "metadata": {"source": "hook"}}


def exchange(number: int, *, size: int = 400) -> list[Message]:
    """A prompt, one tool round with a result of the given size, and an answer."""
    call_id = f"call-{number}"
    return [user(f"prompt {number}"), calling(call_id), result(call_id, "r" * size), assistant(f"answer {number}")]


async def holding(messages: list[Message], **settings: Any) -> SimpleContextManager:
    context = SimpleContextManager(Settings(**settings))
    for message in messages:
        await context.add_message(message)
    return context


async def view_of(*messages: Message, **settings: Any) -> list[Message]:
    return await (await holding(list(messages), **settings)).get_messages_for_request()


async def heard(*events: str, **config: Any) -> tuple[SimpleContextManager, list[tuple[str, Any]]]:
    """Return a mounted context, and the list of the events that it emits."""
    coordinator, seen = MockCoordinator(), []
    await mount(coordinator, config)
    assert await coordinator.collect_contributions("observability.events") == [list(EVENTS)]

    async def note(event: str, data: Any) -> None:
        seen.append((event, data))

    for event in events:
        coordinator.hooks.register(event, note)
    return coordinator.get("context"), seen


def prompts(view: list[Message]) -> list[str]:
    return [message["content"] for message in view if message["role"] == "user"]


def assert_pairs_are_whole(view: list[Message]) -> None:
    for index, message in enumerate(view):
        ids = [call["id"] for call in message.get("tool_calls", [])]
        following = view[index + 1 : index + 1 + len(ids)]
        assert sorted(ids) == sorted(entry.get("tool_call_id", "") for entry in following)
    made = {call["id"] for message in view for call in message.get("tool_calls", [])}
    assert all(message["tool_call_id"] in made for message in view if message["role"] == "tool")


class Provider:
    """A provider that only has sizes."""

    def __init__(self, **defaults: Any) -> None:
        self.defaults = defaults

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="p", display_name="P", defaults=self.defaults)


# --- storing


async def test_messages_are_stored_exactly_as_they_came() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        user("hi"),
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "tool_call", "id": "1", "name": "read", "input": {"path": "a"}},
            ],
            "tool_calls": [{"id": "1", "name": "read", "arguments": {"path": "a"}}],
            "metadata": {"provider_state": [1, 2]},
        },
        result("1", "text"),
        {"role": "assistant", "content": None, "unknown": "kept"},
    ]
    context = await holding(copy.deepcopy(messages))
    assert await context.get_messages() == messages
    assert await context.get_messages_for_request() == messages
    assert await context.get_messages() == messages


async def test_nobody_can_change_what_is_stored_from_outside() -> None:
    message = user("hi", metadata={"tags": ["a"]}, extra={"set": {1, 2}, "n": [(3, [4])]})
    before = copy.deepcopy(message)
    context = await holding([message])
    message["metadata"]["tags"].append("b")
    message["extra"]["set"].clear()
    message["extra"]["n"][0][1].clear()
    for view in (await context.get_messages(), await context.get_messages_for_request()):
        view[0]["metadata"]["tags"].append("c")
        view.append(user("more"))
    assert await context.get_messages() == [before]


async def test_set_messages_replaces_and_clear_forgets() -> None:
    context = await holding([user("old")])
    await context.set_messages([user("new"), assistant("answer")])
    assert await context.get_messages() == [user("new"), assistant("answer")]
    await context.clear()
    assert await context.get_messages() == []
    assert await context.get_messages_for_request() == []


@pytest.mark.parametrize("message", [{"content": "x"}, {"role": "", "content": "x"}, "text", None])
async def test_what_is_no_message_is_refused(message: Any) -> None:
    context = await holding([user("kept")])
    with pytest.raises(ValueError, match="`role`"):
        await context.add_message(message)
    with pytest.raises(ValueError, match="`role`"):
        await context.set_messages([user("other"), message])
    assert await context.get_messages() == [user("kept")]


async def test_the_older_protocol_is_answered_and_changes_nothing() -> None:
    messages = [message for number in range(10) for message in exchange(number)]
    context = await holding(messages, max_tokens=500, keep_recent_turns=1)
    assert await context.should_compact() is False
    assert await context.get_token_count() == total(messages)
    outcome = await context.compact()
    assert outcome["before_messages"] == 40
    assert outcome["after_messages"] == len(await context.get_messages_for_request()) < 40
    assert outcome["removed_tokens"] == outcome["before_tokens"] - outcome["after_tokens"] > 0
    assert await context.get_messages() == messages


async def test_blocks_and_signatures_of_thinking_are_kept_exactly() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "sig_abc", "visibility": "internal"}
    call = {"type": "tool_call", "id": "1", "name": "search", "input": {"q": ["a", {"b": None}]}}
    reply = {"role": "assistant", "content": [thinking, {"type": "text", "text": "Let me search."}, call]}
    answer = {"role": "function", "tool_call_id": "1", "content": [{"type": "tool_result", "output": "x" * 9000}]}
    last = {"role": "assistant", "content": [thinking, {"type": "text", "text": "Based on it"}]}
    context = await holding([user("go"), reply, answer, last, user("more")], max_tokens=500, keep_recent_turns=1)
    assert await context.get_messages() == [user("go"), reply, answer, last, user("more")]
    view = await context.get_messages_for_request(token_budget=900)
    assert (view[1], view[3]) == (reply, last)
    assert len(view[2]["content"][0]["output"]) < 600


# --- the system prompt


async def shown_below(context: SimpleContextManager, prompt: str) -> list[str]:
    """Return the texts of a request whose system prompt is made."""

    async def factory() -> str:
        return prompt

    await context.set_system_prompt_factory(factory)
    return [message["content"] for message in await context.get_messages_for_request()]


async def test_the_system_prompt_is_made_anew_for_each_request() -> None:
    later = {"role": "system", "content": "later"}
    stored = [{"role": "system", "content": "stored"}, injected("hook"), user("hi"), later]
    context = await holding(stored)
    for made, shown in (("first", "first"), ("second", "second"), ("", "stored")):
        assert await shown_below(context, made) == [shown, "hook", "hi", "later"]
    await context.set_system_prompt_factory(None)
    assert await context.get_messages_for_request() == await context.get_messages() == stored


async def test_a_failing_prompt_factory_fails_the_request() -> None:
    context = await holding([user("hi")])

    async def broken() -> str:
        raise LookupError("no prompt")

    await context.set_system_prompt_factory(broken)
    with pytest.raises(LookupError, match="no prompt"):
        await context.get_messages_for_request()


# --- tool pairs


async def test_a_message_between_a_call_and_its_results_is_shown_after_them() -> None:
    messages = [user("go"), calling("1", "2"), injected("careful"), result("2", "b"), user("hm"), result("1", "a")]
    view = await view_of(*messages)
    assert view == [messages[0], messages[1], messages[3], messages[5], messages[2], messages[4]]
    assert_pairs_are_whole(view)


async def test_ids_that_are_used_again_go_with_the_nearest_call() -> None:
    messages = [user("a"), calling("1"), result("1", "x"), user("b"), calling("1"), injected("i"), result("1", "y")]
    view = await view_of(*messages)
    assert [message.get("content") for message in view] == ["a", "", "x", "b", "", "y", "i"]


@pytest.mark.parametrize(
    ("called", "role", "answered"),
    [
        ([("tool_call", "1")], "function", {"type": "tool_result", "output": "x"}),
        ([("tool_use", "a"), ("tool_use", "b")], "user", {"type": "tool_result", "content": "x"}),
    ],
    ids=["one", "several results in one message"],
)
async def test_pairs_are_recognised_by_their_blocks_as_well(
    called: list[tuple[str, str]], role: str, answered: Message
) -> None:
    blocks = [{"type": kind, "id": call_id, "name": "read", "input": {}} for kind, call_id in called]
    answers = [{f"{kind}_id": call_id, **answered} for kind, call_id in called]
    call, answer = {"role": "assistant", "content": blocks}, {"role": role, "content": answers}
    assert await view_of(user("go"), call, injected("i"), answer) == [user("go"), call, answer, injected("i")]


@pytest.mark.parametrize("shape", ["blocks", "tool_calls", "streamed"])
async def test_pairs_are_recognised_in_the_contracts_own_objects(shape: str) -> None:
    block, found = ToolCallBlock(id="1", name="read", input={}), ToolCall(id="1", name="read", arguments={})
    made: dict[str, dict[str, Any]] = {
        "blocks": {"content": [TextBlock(text="so"), block]},
        "tool_calls": {"content": "so", "tool_calls": [found]},
        "streamed": {"content": [ToolCallContent(ContentBlockType.TOOL_CALL, id="1", name="read", arguments={})]},
    }
    call = {"role": "assistant", **made[shape]}
    context = await holding([user("go"), call, injected("i"), result("1", "x")])
    assert await context.get_messages_for_request() == [user("go"), call, result("1", "x"), injected("i")]
    assert await context.get_messages() == [user("go"), call, injected("i"), result("1", "x")]


async def test_results_in_the_contracts_own_objects_are_shortened() -> None:
    rounds = [
        message
        for call_id in "abc"
        for message in (
            user("go"),
            calling(call_id),
            {"role": "tool", "content": [ToolResultBlock(tool_call_id=call_id, output="x" * 900)]},
        )
    ]
    context = await holding(rounds, tool_result_max_chars=10, keep_recent_turns=1)
    view = await context.get_messages_for_request(token_budget=800)
    (first,) = view[2]["content"]
    assert (first["output"][:12], first["tool_call_id"]) == ("xxxxxxxxxx\n[", "a")
    assert await context.get_messages() == rounds


async def test_a_call_of_a_turn_that_was_cut_off_is_answered_in_its_shape() -> None:
    blocks = {"role": "assistant", "content": [{"type": "tool_call", "id": "3", "name": "f", "input": {}}]}
    messages = [user("go"), calling("1", "2"), result("1", "a"), user("again"), blocks, user("third")]
    context = await holding(messages)
    view = await context.get_messages_for_request()
    said = "Error: the turn was interrupted before this tool call was answered"
    assert view[3] == {"role": "tool", "tool_call_id": "2", "content": said}
    assert view[6]["role"] == "function"
    assert view[6]["content"] == [{"type": "tool_result", "tool_call_id": "3", "output": said}]
    assert [view[i] for i in (0, 1, 2, 4, 5, 7)] == messages
    assert await context.get_messages() == messages


async def test_a_result_without_its_call_is_not_shown() -> None:
    messages = [user("go"), result("lost", "x"), calling("1"), result("1", "a"), result("1", "twice")]
    view = await view_of(*messages)
    assert view == [messages[0], messages[2], messages[3]]


# --- the budget


@pytest.mark.parametrize(
    ("budget", "provider", "expected"),
    [
        (700, Provider(context_window=9000, max_output_tokens=1000), 700),
        (None, Provider(context_window=9000, max_output_tokens=1000), 7900),
        (None, Provider(context_window=900, max_output_tokens=1000), 5000),
        (None, Provider(context_window=9000), 5000),
        (None, Provider(context_window="9000", max_output_tokens=1), 5000),
        (None, object(), 5000),
        (None, None, 5000),
    ],
    ids=["explicit", "provider", "window too small", "output unknown", "not a number", "no get_info", "no provider"],
)
async def test_the_budget_is_the_callers_or_the_providers_or_the_configured_one(
    budget: int | None, provider: Any, expected: int
) -> None:
    context, seen = await heard(EVENTS[0], max_tokens=5000, safety_margin=100, compaction_threshold=0.01)
    await context.add_message(user("x" * 4000))
    await context.get_messages_for_request(token_budget=budget, provider=provider)
    assert [data["budget"] for _, data in seen] == [expected]


# --- compaction


async def test_a_conversation_within_the_threshold_is_shown_whole_and_in_silence() -> None:
    context, seen = await heard(*EVENTS, max_tokens=10_000)
    await context.set_messages([message for number in range(5) for message in exchange(number)])
    assert len(await context.get_messages_for_request()) == 20
    assert seen == []


async def test_compaction_changes_the_view_and_never_what_is_stored() -> None:
    messages = [message for number in range(20) for message in exchange(number)]
    context = await holding(messages, max_tokens=1000)

    view = await context.get_messages_for_request()
    again = await context.get_messages_for_request()
    for message in again:
        message.get("tool_calls", []).clear()

    assert len(view) < len(messages)
    assert total(view) <= 1000
    assert await context.get_messages() == messages
    assert await context.get_messages_for_request() == view
    assert await context.get_messages_for_request(token_budget=1_000_000) == messages


async def test_old_tool_results_are_shortened_before_anything_is_left_out() -> None:
    messages = [message for number in range(6) for message in exchange(number, size=4000)]
    context = await holding(messages, max_tokens=6000, keep_recent_turns=2, tool_result_max_chars=100)

    view = await context.get_messages_for_request()

    assert len(view) == len(messages)
    sizes = [len(message["content"]) for message in view if message["role"] == "tool"]
    assert sizes[0] < 200
    assert sizes[-2:] == [4000, 4000]
    assert "3900 of 4000 characters left out" in view[2]["content"]


async def test_the_oldest_exchanges_are_left_out_whole_and_the_last_ones_stay() -> None:
    system = {"role": "system", "content": "be brief"}
    messages = [system, *(message for number in range(20) for message in exchange(number, size=40))]
    context = await holding(messages, max_tokens=500, keep_recent_turns=3)

    view = await context.get_messages_for_request()

    assert view[0] == system
    shown = prompts(view)
    assert shown == [f"prompt {number}" for number in range(20 - len(shown), 20)]
    assert 3 <= len(shown) < 20
    assert view[-12:] == messages[-12:]
    assert_pairs_are_whole(view)


async def test_instructions_stay_and_what_hooks_said_goes_with_its_exchange() -> None:
    messages = [
        {"role": "system", "content": "rules"},
        user("old " * 200),
        injected("old remark"),
        injected("remark in the user's role", "user"),
        {"role": "developer", "content": "more rules"},
        user("new"),
    ]
    view = await view_of(*messages, max_tokens=100, keep_recent_turns=1)
    assert [message["content"] for message in view] == ["rules", "more rules", "new"]


async def test_a_long_exchange_loses_only_older_tool_rounds() -> None:
    rounds = [message for n in range(50) for message in (calling(f"c{n}"), result(f"c{n}", "r" * 300))]
    messages = [user("do a lot"), *rounds]
    context = await holding(messages, max_tokens=1000, tool_result_max_chars=20)

    view = await context.get_messages_for_request()

    assert view[0] == user("do a lot")
    assert view[-2:] == messages[-2:]
    assert total(view) <= 1000
    assert_pairs_are_whole(view)


async def test_recent_exchanges_go_only_when_nothing_else_helps() -> None:
    messages = [user("a" * 4000), user("b" * 4000), user("c" * 1000)]
    context = await holding(messages, max_tokens=600, keep_recent_turns=3)
    assert await context.get_messages_for_request() == [messages[2]]


async def test_the_latest_results_give_way_last_and_the_largest_first() -> None:
    large, small = result("1", "x" * 160_000), result("2", "y" * 1200)
    messages = [user("read it"), calling("1", "2"), large, small]
    context = await holding(messages, max_tokens=4000)
    view = await context.get_messages_for_request()
    assert view[:2] == messages[:2] and view[3] == small
    assert 3000 < total(view) <= 4000 and "of 160000 characters left out; to see more" in view[2]["content"]
    assert await context.get_messages() == messages


async def test_what_must_stay_is_shown_even_when_it_is_too_much(caplog: pytest.LogCaptureFixture) -> None:
    messages = [{"role": "system", "content": "s" * 4000}, user("u" * 4000)]
    context = await holding(messages, max_tokens=100)
    assert await context.get_messages_for_request() == messages
    assert "the budget is 100" in caplog.text


async def test_images_in_old_results_give_way_to_a_note() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x" * 50_000}}
    shot = {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "t" * 900}, image]}
    messages = [user("look"), calling("1"), shot, user("next")]
    context = await holding(messages, max_tokens=1000, keep_recent_turns=1, tool_result_max_chars=10)
    view = await context.get_messages_for_request()
    blocks = view[2]["content"]
    assert blocks[0]["text"].startswith("t" * 10 + "\n[shortened")
    assert blocks[1] == {"type": "text", "text": "[image left out to save space]"}
    assert (await context.get_messages())[2] == shot


async def test_compaction_events_have_the_fields_of_both_specifications() -> None:
    context, told = await heard(*EVENTS, max_tokens=1500, keep_recent_turns=1)
    await context.set_messages([message for number in range(10) for message in exchange(number, size=2000)])
    view = await context.get_messages_for_request()
    seen = {event: {key: value for key, value in data.items() if key in _FIELDS} for event, data in told}
    assert list(seen) == ["context:pre_compact", "context:post_compact", "context:compaction"]
    before = {"before_messages": 40, "before_tokens": await context.get_token_count()}
    after = {
        "after_messages": len(view),
        "after_tokens": total(view),
        "removed_messages": 40 - len(view),
        "removed_tokens": before["before_tokens"] - total(view),
        "shortened_results": sum("characters left out" in message["content"] for message in view),
    }
    assert after["shortened_results"] > 0
    how = {"strategy": "shorten_old_results_then_drop_old_exchanges", "budget": 1500, "tokens_by": "estimate"}
    assert seen["context:pre_compact"] == {
        **before, **how, "message_count": 40, "token_count": before["before_tokens"]
    }  # fmt: skip
    assert seen["context:post_compact"] == {
        **after, **how, "message_count": len(view), "token_count": total(view)
    }  # fmt: skip
    assert seen["context:compaction"] == {**before, **after, **how}


# --- counting


def test_tokens_grow_with_the_text_and_count_bytes_not_characters() -> None:
    assert tokens_of(user("x" * 400)) == 104
    assert tokens_of(user("語" * 400)) == 304
    assert tokens_of({"role": "assistant", "content": None}) == 4


def test_an_image_counts_as_one_and_not_by_its_bytes() -> None:
    image = {"type": "image", "source": {"data": "x" * 1_000_000}}
    assert tokens_of({"role": "user", "content": [image]}) < 2000


def test_a_call_that_is_stored_twice_is_counted_once() -> None:
    arguments = {"path": "p" * 400}
    block = {"type": "tool_call", "id": "1", "name": "read", "input": arguments}
    listed = {"id": "1", "name": "read", "arguments": arguments}
    both = tokens_of({"role": "assistant", "content": [block], "tool_calls": [listed]})
    assert both == tokens_of({"role": "assistant", "content": [block]})
    assert tokens_of({"role": "assistant", "content": "", "tool_calls": [listed]}) > 100


# --- configuration and packaging


@pytest.mark.parametrize(
    "config",
    [
        {"max_tokens": 0},
        {"max_tokens": "many"},
        {"compaction_threshold": 1.5},
        {"compaction_target": 0},
        {"keep_recent_turns": 0},
        {"safety_margin": -1},
        {"tool_result_max_chars": True},
        {"tokenizer": "guess"},
        {"max_token": 5},
    ],
)
async def test_a_wrong_configuration_is_refused_at_mount(config: dict[str, Any]) -> None:
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match=f"`{next(iter(config))}`"):
        await mount(coordinator, config)
    assert coordinator.get("context") is None


async def test_it_mounts_without_configuration_and_without_hooks() -> None:
    class Coordinator:
        mounted: Any = None

        async def mount(self, point: str, module: Any) -> None:
            self.mounted = (point, module)

    coordinator = Coordinator()
    assert await mount(coordinator) is None
    point, context = coordinator.mounted
    assert point == "context"
    await context.add_message(user("x" * 500_000))
    assert await context.get_messages_for_request() == [user("x" * 500_000)]


async def test_messages_that_were_set_are_sized_by_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    sized: list[Message] = []
    monkeypatch.setattr(TokenCounter, "tokens_of", lambda self, message: sized.append(message) or tokens_of(message))
    context = SimpleContextManager()
    await context.set_messages([user("one"), assistant("two")])
    assert await context.get_messages() == [user("one"), assistant("two")] and sized == []
    for _ in range(2):
        assert await context.get_messages_for_request() == [user("one"), assistant("two")]
    assert sized == [user("one"), assistant("two")]
    await context.add_message(user("three"))
    assert len(await context.get_messages_for_request()) == len(sized) == 3
