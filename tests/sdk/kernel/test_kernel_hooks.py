"""Registration, the walk through the handlers, and what an emit comes to."""

from __future__ import annotations

import inspect
import json
import logging
import math
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import BaseModel

from paddock_sdk.contract import events
from paddock_sdk.contract.models import ContextInjection, HookResult
from paddock_sdk.kernel.hooks import HookRegistry, Payload
from support.rows import each_row

CONTINUE = HookResult()
DENY = HookResult(action="deny", reason="no", user_message="stop", data={"k": 1})
ASK = HookResult(action="ask_user", approval_prompt="first?")
ASK_AGAIN = HookResult(action="ask_user", approval_prompt="second?")
MODIFY = HookResult(action="modify", data={"changed": True})


def inject(text: str | None, **fields: Any) -> HookResult:
    return HookResult(action="inject_context", context_injection=text, **fields)


def answering(*answers: object) -> HookRegistry:
    """Return a registry whose handlers for "e" give these answers in turn."""
    registry = HookRegistry()
    for number, answer in enumerate(answers):
        registry.register("e", lambda event, data, answer=answer: answer, name=f"h{number}")
    return registry


# Registration.


@each_row("priority", ["1", 1.0, None])
def test_a_priority_that_is_no_integer_is_refused(priority: Any) -> None:
    with pytest.raises(TypeError, match="priority"):
        HookRegistry().register("e", print, priority=priority)


def test_a_handler_without_a_name_gets_one_of_its_own() -> None:
    registry = HookRegistry()
    registry.register("e", print)
    registry.on("e", print)
    first, second = registry.list_handlers()["e"]
    assert first.startswith("_auto_e_")
    assert first != second


def test_an_unregister_function_removes_its_own_registration_once() -> None:
    registry = HookRegistry()
    remove_first = registry.register("e", print, name="same")
    registry.register("e", repr, priority=5, name="same")
    remove_first()
    remove_first()
    assert registry.list_handlers() == {"e": ["same"]}
    registry.unregister("same")
    assert registry.list_handlers() == {"e": []}


@pytest.mark.difference("`list_handlers` keeps only the latest 1,000 events whose handlers have all left")
def test_events_without_handlers_are_listed_up_to_a_bound() -> None:
    registry = HookRegistry()
    for number in range(1100):
        registry.register(f"event-{number}", print)()
    registry.register("event-100", print)
    registry.register("another", print)()
    listed = registry.list_handlers()
    assert len(listed) == 1001
    assert [event for event, names in listed.items() if names] == ["event-100"]
    assert listed["another"] == listed["event-1099"] == []
    assert "event-99" not in listed and "event-101" in listed


async def test_unregister_removes_the_most_recent_registration_of_a_name() -> None:
    registry, heard = HookRegistry(), []
    registry.register("e", lambda event, data: heard.append("first"), priority=9, name="same")
    registry.register("f", lambda event, data: heard.append("second"), name="same")
    registry.unregister("same")
    assert registry.list_handlers() == {"e": ["same"], "f": []}
    await registry.emit("e", {})
    await registry.emit("f", {})
    assert heard == ["first"]


def test_an_event_without_handlers_is_listed_when_asked_for() -> None:
    assert HookRegistry().list_handlers("x") == {"x": []}
    assert HookRegistry().list_handlers() == {}


def test_the_class_has_constants_of_eight_events() -> None:
    names = {name: value for name, value in vars(HookRegistry).items() if name.isupper()}
    assert len(names) == 8 and names.items() <= vars(events).items()


class SubscriptionLog:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def subscribed(self, event: str) -> None:
        self.seen.append("+" + event)

    def unsubscribed(self, event: str) -> None:
        self.seen.append("-" + event)


def test_the_observer_hears_first_subscriptions_and_last_removals() -> None:
    registry, log = HookRegistry(), SubscriptionLog()
    registry.observer = log
    remove = registry.register("e", print)
    registry.register("e", print, name="n")
    registry.register("f", print, name="f")
    remove()
    assert log.seen == ["+e", "+f"]
    registry.unregister("n")
    registry.register("e", print)
    assert log.seen == ["+e", "+f", "-e", "+e"]


# What handlers and the emitter see.


async def test_a_heard_event_carries_default_fields_and_the_time() -> None:
    registry = HookRegistry()
    seen: list[dict[str, Any]] = []
    registry.register("e", lambda event, data: seen.append(data))
    registry.set_default_fields(session_id="s", parent_id=None, extra=(1, 2))
    before = datetime.now(UTC)
    result = await registry.emit("e", {"zeta": 1, "parent_id": "mine", "timestamp": "then"})
    stamp = datetime.fromisoformat(seen[0]["timestamp"])
    assert before <= stamp <= before + timedelta(seconds=30)
    assert stamp.utcoffset() == timedelta(0)
    expected = {"extra": [1, 2], "parent_id": "mine", "session_id": "s", "timestamp": seen[0]["timestamp"], "zeta": 1}
    assert json.dumps(seen[0]) == json.dumps(expected)
    assert result.data == expected


async def test_default_fields_are_set_and_not_added_to() -> None:
    registry = HookRegistry()
    registry.set_default_fields(a=1)
    registry.set_default_fields(b=2)
    registry.register("e", print)
    fields = (await registry.emit("e", {})).data
    assert fields is not None and fields == {"b": 2, "timestamp": fields["timestamp"]}


async def test_a_model_as_data_is_dumped() -> None:
    class Model(BaseModel):
        when: datetime = datetime(2024, 1, 2, tzinfo=UTC)

    assert (await HookRegistry().emit("e", Model())).data == {"when": "2024-01-02T00:00:00Z"}


@each_row("is_heard", [True, False])
async def test_data_without_json_form_is_the_emitters_error(is_heard: bool) -> None:
    registry = answering(None) if is_heard else HookRegistry()
    with pytest.raises(RuntimeError, match="Invalid JSON"):
        await registry.emit("e", {"v": math.nan})


@each_row("is_heard", [True, False])
async def test_the_result_never_shares_anything_with_the_data(is_heard: bool) -> None:
    registry = answering(None) if is_heard else HookRegistry()
    data: dict[str, Any] = {"list": [1]}
    result = await registry.emit("e", data)
    assert result.data is not data
    assert result.data is not None
    result.data["list"].append(2)
    assert data == {"list": [1]}


async def test_what_a_handler_does_to_its_data_stays_unseen_by_others() -> None:
    registry, seen = HookRegistry(), []

    def spoil(event: str, data: dict[str, Any]) -> None:
        data["inner"]["spoilt"] = True
        del data["kept"]

    registry.register("e", spoil)
    registry.register("e", lambda event, data: seen.append(data))
    result = await registry.emit("e", {"inner": {}, "kept": 1})
    for data in (seen[0], result.data):
        assert data is not None
        assert data["inner"] == {}
        assert data["kept"] == 1


def test_emits_are_genuine_coroutines() -> None:
    for emit in (HookRegistry().emit, HookRegistry().emit_and_collect):
        coroutine = emit("e", {})
        assert inspect.iscoroutine(coroutine)
        coroutine.close()


# How an answer is read.


class OtherModel(BaseModel):
    action: str = "deny"
    reason: str = "other"
    unknown: int = 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(None, "continue", id="nothing"),
        pytest.param(HookResult(), "continue", id="the default"),
        pytest.param({}, "continue", id="an empty mapping"),
        pytest.param({"unknown": 1}, "continue", id="unknown keys"),
        pytest.param({"action": "deny", "reason": "other"}, "other", id="a mapping"),
        pytest.param(OtherModel(), "other", id="another model"),
        pytest.param({"action": "deny", "reason": "other", "approval_options": ("a",)}, "other", id="a tuple as list"),
        *(
            pytest.param(bad, "Hook handler returned invalid response", id=f"invalid: {bad!r:.40}")
            for bad in (
                "continue",
                True,
                0,
                [],
                ["deny"],
                {"action": "allow"},
                {"action": None},
                {"data": [1]},
                {"data": "text"},
                {"action": "inject_context", "context_injection": 3},
                {"ephemeral": "yes"},
                {"context_injections": [{"role": "system"}]},
                {"data": {"v": math.nan}},
                OtherModel(action="explode"),
                HookResult.model_construct(action="explode"),
                HookResult.model_construct(data=[1]),
                HookResult(action="modify", data={"v": math.inf}),
                HookResult,
            )
        ),
    ],
)
async def test_an_answer_is_a_result_or_a_deny(answer: Any, expected: str, caplog: pytest.LogCaptureFixture) -> None:
    is_invalid = expected.startswith("Hook handler")
    reached: list[str] = []
    registry = answering(answer)
    registry.register("e", lambda event, data: reached.append(event))
    result = await registry.emit("e", {"a": 1})
    assert (result.action if expected == "continue" else result.reason) == expected
    assert result.action == ("continue" if expected == "continue" else "deny")
    assert bool(reached) == (expected == "continue")
    assert ("SECURITY" in caplog.text) == is_invalid


async def test_an_invalid_answer_names_the_handler_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    registry = HookRegistry()
    registry.register("tool:pre", lambda event, data: "yes", name="guard")
    await registry.emit("tool:pre", {})
    assert "'guard'" in caplog.text
    assert "'tool:pre'" in caplog.text


async def test_a_mapping_result_shares_nothing_with_the_handler() -> None:
    kept: dict[str, Any] = {"action": "deny", "data": {"list": [1]}}
    result = await answering(kept).emit("e", {})
    kept["data"]["list"].append(2)
    assert result.data == {"list": [1]}


# Which action wins.


@each_row(
    ("answers", "expected"),
    [
        pytest.param([CONTINUE, CONTINUE], "continue", id="nothing special"),
        pytest.param([DENY, ASK], "deny", id="a deny before a question"),
        pytest.param([ASK, DENY], "deny", id="a deny after a question"),
        pytest.param([inject("x"), DENY], "deny", id="a deny after an injection"),
        pytest.param([MODIFY, DENY], "deny", id="a deny after a modification"),
        pytest.param([inject("x"), ASK], "ask_user", id="a question after an injection"),
        pytest.param([ASK, inject("x")], "ask_user", id="a question before an injection"),
        pytest.param([MODIFY, ASK], "ask_user", id="a question after a modification"),
        pytest.param([MODIFY, inject("x")], "inject_context", id="an injection after a modification"),
        pytest.param([inject("x"), MODIFY], "inject_context", id="an injection before a modification"),
        pytest.param([MODIFY], "continue", id="a modification is never the action"),
        pytest.param([HookResult(action="modify")], "continue", id="a modification without data"),
        pytest.param([inject(None)], "continue", id="an injection of nothing"),
        pytest.param([inject("")], "inject_context", id="an injection of an empty text"),
    ],
)
async def test_deny_beats_a_question_beats_an_injection(answers: list[HookResult], expected: str) -> None:
    assert (await answering(*answers).emit("e", {})).action == expected


async def test_the_first_question_is_the_one_asked_and_injections_are_dropped() -> None:
    assert await answering(inject("x"), ASK, ASK_AGAIN).emit("e", {}) is ASK


async def test_a_modification_to_nothing_counts_and_one_without_data_does_not() -> None:
    assert (await answering(HookResult(action="modify", data={})).emit("e", {"a": 1})).data == {}
    data = (await answering(HookResult(action="modify")).emit("e", {"a": 1})).data
    assert data is not None
    assert data["a"] == 1


async def test_what_a_continue_says_besides_is_dropped() -> None:
    chatty = HookResult(data={"mine": 1}, user_message="hello", suppress_output=True, reason="r")
    result = await answering(chatty).emit("e", {"a": 1})
    assert result == HookResult(data={"a": 1, "timestamp": (result.data or {})["timestamp"]})


# Injections.


async def test_a_single_injection_is_returned_with_its_origin() -> None:
    single = inject("text", user_message="shown", ephemeral=True, context_injection_role="user")
    item = ContextInjection(content="text", role="user", ephemeral=True, hook_name="h1", event="e")
    expected = single.model_copy(update={"context_injections": [item]})
    assert await answering(CONTINUE, single).emit("e", {}) == expected
    assert single.context_injections == []


async def test_several_injections_become_one() -> None:
    result = await answering(
        inject("one", ephemeral=True, context_injection_role="user", suppress_output=True, user_message="dropped"),
        CONTINUE,
        inject("", append_to_last_tool_result=True),
        inject("three", context_injection_role="assistant"),
    ).emit("e", {})
    assert result == HookResult(
        action="inject_context",
        context_injection="one\n\n\n\nthree",
        context_injection_role="user",
        ephemeral=True,
        suppress_output=True,
        append_to_last_tool_result=True,
        context_injections=[
            ContextInjection(content="one", role="user", ephemeral=True, hook_name="h0", event="e"),
            ContextInjection(content="", append_to_last_tool_result=True, hook_name="h2", event="e"),
            ContextInjection(content="three", role="assistant", hook_name="h3", event="e"),
        ],
    )


async def test_a_list_outweighs_the_text_beside_it_and_the_scalars_follow_it() -> None:
    listed = inject(
        "ignored",
        user_message="kept",
        context_injections=[
            ContextInjection(content="one", role="user", hook_name="forged", event="forged"),
            ContextInjection(content="two", ephemeral=True, append_to_last_tool_result=True),
        ],
    )
    result = await answering(listed).emit("e", {})
    assert result == HookResult(
        action="inject_context",
        user_message="kept",
        context_injection="one\n\ntwo",
        context_injection_role="user",
        ephemeral=True,
        append_to_last_tool_result=True,
        context_injections=[
            ContextInjection(content="one", role="user", hook_name="h0", event="e"),
            ContextInjection(content="two", ephemeral=True, append_to_last_tool_result=True, hook_name="h0", event="e"),
        ],
    )
    assert listed.context_injections[0].hook_name == "forged"


async def test_lists_and_texts_of_several_handlers_are_joined_in_order() -> None:
    listed = inject(
        None, context_injections=[ContextInjection(content="b", ephemeral=True), ContextInjection(content="c")]
    )
    result = await answering(inject("a"), listed, inject("d")).emit("e", {})
    assert result.context_injection == "a\n\nb\n\nc\n\nd"
    assert [(item.content, item.hook_name) for item in result.context_injections] == [
        ("a", "h0"),
        ("b", "h1"),
        ("c", "h1"),
        ("d", "h2"),
    ]
    assert result.ephemeral is True


# Failing handlers, kinds of handlers.


@pytest.mark.parametrize(
    "handler", [None, 3, "text", lambda: None, lambda event, data: 1 / 0], ids=["None", "int", "str", "arity", "raises"]
)
async def test_a_handler_that_fails_is_skipped(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    registry = HookRegistry()
    registry.register("e", handler, name="broken")
    registry.register("e", lambda event, data: DENY)
    with caplog.at_level(logging.WARNING):
        assert await registry.emit("e", {}) is DENY
    assert "'broken'" in caplog.text


class CallableHandler:
    async def __call__(self, event: str, data: dict[str, Any]) -> HookResult:
        return DENY

    async def method(self, event: str, data: dict[str, Any]) -> HookResult:
        return DENY

    async def third(self, extra: object, event: str, data: dict[str, Any]) -> HookResult:
        return DENY


class Awaitable:
    def __await__(self) -> Any:
        yield from ()
        return DENY


async def a_function(event: str, data: dict[str, Any]) -> HookResult:
    return DENY


@each_row(
    "handler",
    [
        a_function,
        lambda event, data: DENY,
        lambda event, data: a_function(event, data),
        lambda event, data: Awaitable(),
        CallableHandler(),
        CallableHandler().method,
        partial(CallableHandler().third, None),
        AsyncMock(return_value=DENY),
    ],
    ids=["async", "sync", "sync-returning-coroutine", "awaitable", "object", "method", "partial", "mock"],
)
async def test_every_kind_of_callable_is_a_handler(handler: Any) -> None:
    registry = HookRegistry()
    registry.register("e", handler)
    assert await registry.emit("e", {}) is DENY


async def test_handlers_that_come_or_go_during_an_emit_do_not_change_it() -> None:
    registry, heard = HookRegistry(), []

    def first(event: str, data: dict[str, Any]) -> None:
        heard.append("first")
        remove_second()
        registry.register("e", lambda event, data: heard.append("late"))

    registry.register("e", first)
    remove_second = registry.register("e", lambda event, data: heard.append("second"))
    await registry.emit("e", {})
    assert heard == ["first", "second"]
    assert len(registry.list_handlers("e")["e"]) == 2


async def test_a_handler_may_emit_even_the_same_event() -> None:
    registry, depth = HookRegistry(), []

    async def again(event: str, data: dict[str, Any]) -> None:
        depth.append(data["n"])
        if data["n"] < 3:
            await registry.emit("e", {"n": data["n"] + 1})

    registry.register("e", again)
    await registry.emit("e", {"n": 1})
    assert depth == [1, 2, 3]


class PayloadLog:
    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.payloads: list[Payload] = []

    async def deliver(self, event: str, payload: Payload) -> object:
        self.payloads.append(payload)
        return self.answer


async def test_payload_handlers_share_one_payload_until_it_is_modified() -> None:
    registry = HookRegistry()
    first, second, third = PayloadLog(), PayloadLog({"action": "modify", "data": {"n": 2}}), PayloadLog()
    for handler in (first, second, third):
        registry.register("e", handler)
    await registry.emit("e", {"n": 1})
    assert first.payloads[0] is second.payloads[0]
    assert first.payloads[0].data()["n"] == 1
    assert third.payloads[0].data() == {"n": 2}


async def test_a_payload_that_is_kept_does_not_change_with_the_result() -> None:
    registry, log = HookRegistry(), PayloadLog()
    registry.register("e", log)
    result = await registry.emit("e", {"list": [1]})
    (result.data or {})["list"].append(2)
    assert log.payloads[0].data()["list"] == [1]


async def test_a_payload_handlers_answer_is_read_like_any() -> None:
    registry = HookRegistry()
    registry.register("e", PayloadLog("nonsense"))
    assert (await registry.emit("e", {})).action == "deny"


async def test_emit_payload_skips_the_conversion() -> None:
    registry, log = HookRegistry(), PayloadLog()
    registry.register("e", log)
    result = await registry.emit_payload("e", Payload({"a": 1}))
    assert log.payloads[0].data() == result.data


# emit_and_collect.


async def test_collecting_takes_the_data_of_every_answer_in_order() -> None:
    seen: list[dict[str, Any]] = []
    registry = answering(
        HookResult(data={"n": 1}),
        None,
        HookResult(action="deny", data={"n": (2,)}),
        HookResult(),
        {"data": {"n": 3}},
        "nonsense",
        HookResult(action="modify", data={"n": math.nan}),
        HookResult(action="modify", data={"n": 4}),
    )
    registry.set_default_fields(session_id="s")
    registry.register("e", lambda event, data: 1 / 0)
    registry.register("e", lambda event, data: seen.append(data))
    assert await registry.emit_and_collect("e", {"b": {1}}) == [{"n": 1}, {"n": [2]}, {"n": 3}, {"n": 4}]
    assert seen == [{"b": "{1}"}]
