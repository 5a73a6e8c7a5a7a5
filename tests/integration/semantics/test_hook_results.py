"""What `process_hook_result` does with each kind of result, in what order, and what it leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from integration.semantics.places import OpenPlace, Place
from paddock_sdk.contract.approval import ApprovalTimeoutError
from support.rows import each_row


class Approver:
    """Replies as a test says; an exception is raised."""

    def __init__(self) -> None:
        self.reply: Any = "Allow"
        self.asked: list[list[Any]] = []

    async def request_approval(self, *asked: Any) -> Any:
        self.asked.append(list(asked))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


class Display:
    """Keeps what it is to show, or fails to."""

    def __init__(self) -> None:
        self.shown: list[list[Any]] = []
        self.fails = False

    def show_message(self, *shown: Any) -> None:
        self.shown.append(list(shown))
        if self.fails:
            raise OSError("the display is gone")


class Judged:
    def __init__(self, place: Place, approver: Approver, display: Display) -> None:
        self.place = place
        self.approver = approver
        self.display = display

    async def process(self, result: dict[str, Any], **given: Any) -> dict[str, Any]:
        """Return what is left, what the context was given without the time, what was shown and asked."""
        self.display.shown.clear()
        self.approver.asked.clear()
        outcome: dict[str, Any] = await self.place.run(
            "hook_results.processed", result=result, **{"hook_name": "guard", **given}
        )
        for message in outcome["messages"]:
            assert message["metadata"].pop("timestamp").endswith("+00:00")
        return {**outcome, "shown": list(self.display.shown), "asked": list(self.approver.asked)}


@pytest.fixture(scope="module")
async def judged(open_place: OpenPlace, anyio_backend: str) -> AsyncIterator[Judged]:
    approver, display = Approver(), Display()
    async with open_place(approval=approver, display=display) as place:
        yield Judged(place, approver, display)


def outcome(left: dict[str, Any], *, messages: Any = (), shown: Any = (), asked: Any = ()) -> dict[str, Any]:
    return {"left": left, "messages": list(messages), "shown": list(shown), "asked": list(asked)}


def injects(text: str | None, **fields: Any) -> dict[str, Any]:
    return {"action": "inject_context", "context_injection": text, **fields}


def written(text: str, role: str = "system", hook: str = "guard", event: str = "tool:pre") -> dict[str, Any]:
    """Return the message that an injection becomes."""
    return {
        "role": role,
        "content": text,
        "metadata": {
            "source": "hook",
            "hook_name": hook,
            "event": event,
            "requested_role": role,
            "ephemeral": False,
            "persisted": True,
        },
    }


CONTINUE = {"action": "continue"}
ITEM = {"hook_name": "guard", "event": "tool:pre"}
UNKNOWN = {"hook": "unknown", "event": ""}  # of an item that does not say where it comes from

RESULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # Unchanged.
    "continue": ({"action": "continue", "data": {"a": 1}}, outcome({"action": "continue", "data": {"a": 1}})),
    "modify": ({"action": "modify", "data": {"a": 1}}, outcome({"action": "modify", "data": {"a": 1}})),
    "deny": ({"action": "deny", "reason": "no"}, outcome({"action": "deny", "reason": "no"})),
    "a text beside another action": (
        {"action": "deny", "context_injection": "x"},
        outcome({"action": "deny", "context_injection": "x"}),
    ),
    # Injections.
    "a lasting injection": (injects("remember"), outcome(CONTINUE, messages=[written("remember")])),
    "an injection in another role": (
        injects("remember", context_injection_role="user"),
        outcome(CONTINUE, messages=[written("remember", "user")]),
    ),
    "an ephemeral injection": (
        injects("soon gone", ephemeral=True),
        outcome(
            injects(
                "soon gone", ephemeral=True, context_injections=[{"content": "soon gone", "ephemeral": True, **ITEM}]
            )
        ),
    ),
    "a list of lasting injections": (
        injects(None, context_injections=[{"content": "one"}, {"content": "two", "role": "user"}]),
        outcome(CONTINUE, messages=[written("one", **UNKNOWN), written("two", "user", **UNKNOWN)]),
    ),
    "a mixed list": (
        injects(
            "ignored",
            context_injections=[
                {"content": "stays"},
                {"content": "soon gone", "ephemeral": True, "role": "user", "append_to_last_tool_result": True},
            ],
        ),
        outcome(
            {
                "action": "inject_context",
                "context_injection": "soon gone",
                "context_injection_role": "user",
                "ephemeral": True,
                "append_to_last_tool_result": True,
                "context_injections": [
                    {"content": "soon gone", "role": "user", "ephemeral": True, "append_to_last_tool_result": True}
                ],
            },
            messages=[written("stays", **UNKNOWN)],
        ),
    ),
    "an item that knows where it comes from": (
        injects(None, context_injections=[{"content": "x", "hook_name": "another", "event": "tool:post"}]),
        outcome(CONTINUE, messages=[written("x", hook="another", event="tool:post")]),
    ),
    "an injection is cleaned": (injects("a\x00b\x1bc\x9fd"), outcome(CONTINUE, messages=[written("abcd")])),
    "an empty injection": (injects(""), outcome(CONTINUE)),
    "no injection at all": (injects(None), outcome(CONTINUE)),
    # Messages.
    "a message beside a deny": (
        {"action": "deny", "reason": "no", "user_message": "told"},
        outcome({"action": "deny", "reason": "no", "user_message": "told"}, shown=[["told", "info", "hook:guard"]]),
    ),
    "a message beside a continue": (
        {"user_message": "told", "user_message_level": "warning"},
        outcome(
            {"action": "continue", "user_message": "told", "user_message_level": "warning"},
            shown=[["told", "warning", "hook:guard"]],
        ),
    ),
    "a message that names its source": (
        {"user_message": "told", "user_message_source": "linter", "user_message_level": "error"},
        outcome(
            {
                "action": "continue",
                "user_message": "told",
                "user_message_source": "linter",
                "user_message_level": "error",
            },
            shown=[["told", "error", "hook:linter"]],
        ),
    ),
    "an empty message": ({"user_message": ""}, outcome({"action": "continue", "user_message": ""})),
    "a message beside an injection": (
        injects("x", user_message="told"),
        outcome({**CONTINUE, "user_message": "told"}, messages=[written("x")], shown=[["told", "info", "hook:guard"]]),
    ),
    "suppressed output": ({"suppress_output": True}, outcome({"action": "continue", "suppress_output": True})),
    # Questions.
    "a question in the contract's words": (
        {"action": "ask_user"},
        outcome(CONTINUE, asked=[["Allow this operation?", ["Allow", "Deny"], 300.0, "deny"]]),
    ),
    "a question in the hook's words": (
        {
            "action": "ask_user",
            "approval_prompt": "May it?",
            "approval_options": ["Allow once", "Deny"],
            "approval_timeout": 3.0,
            "approval_default": "allow",
            "user_message": "not shown",
        },
        outcome(CONTINUE, asked=[["May it?", ["Allow once", "Deny"], 3.0, "allow"]]),
    ),
}


@each_row("case", RESULTS)
async def test_a_result_is_acted_on(judged: Judged, case: str) -> None:
    result, expected = RESULTS[case]
    assert await judged.process(result) == expected


DENIED = "User denied: May it?"
REPLIES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "allow": ("Allow", "deny", CONTINUE),
    "allow once": ("allow ONCE", "deny", CONTINUE),
    "allow always": ("ALLOW ALWAYS", "deny", CONTINUE),
    "deny": ("Deny", "allow", {"action": "deny", "reason": DENIED}),
    "another option": ("Yes", "allow", {"action": "deny", "reason": DENIED}),
    "nothing": ("", "allow", {"action": "deny", "reason": DENIED}),
    "no answer, allowed": (ApprovalTimeoutError("nobody there"), "allow", CONTINUE),
    "no answer, denied": (
        ApprovalTimeoutError("nobody there"),
        "deny",
        {"action": "deny", "reason": "Approval timeout - denied by default: May it?"},
    ),
}


@each_row("case", REPLIES)
async def test_only_a_reply_that_says_allow_allows(judged: Judged, case: str) -> None:
    judged.approver.reply, default, left = REPLIES[case]
    result = {"action": "ask_user", "approval_prompt": "May it?", "approval_default": default}
    assert (await judged.process(result))["left"] == left
    judged.approver.reply = "Allow"


async def test_a_long_question_is_cut_in_the_reason(judged: Judged) -> None:
    judged.approver.reply = "Deny"
    outcome = await judged.process({"action": "ask_user", "approval_prompt": "x" * 500})
    assert outcome["left"]["reason"] == "User denied: " + "x" * 200
    assert outcome["asked"][0][0] == "x" * 500
    judged.approver.reply = "Allow"


@pytest.mark.parametrize(
    ("reply", "raised"),
    [(LookupError("no such person"), ["LookupError", "no such person"]), (True, ["TypeError", None])],
    ids=["another exception", "a reply that is no text"],
)
async def test_what_goes_wrong_in_the_approval_system_is_the_callers(
    judged: Judged, reply: Any, raised: list[Any]
) -> None:
    judged.approver.reply = reply
    kind, text = (await judged.process({"action": "ask_user"}))["raised"]
    assert kind == raised[0]
    assert raised[1] is None or text == raised[1]
    judged.approver.reply = "Allow"


async def test_a_display_that_fails_changes_nothing(judged: Judged) -> None:
    judged.display.fails = True
    result = {"action": "deny", "user_message": "told"}
    assert (await judged.process(result))["left"] == {"action": "deny", "user_message": "told"}
    judged.display.fails = False


async def test_what_the_context_raises_goes_to_the_caller(judged: Judged) -> None:
    outcome = await judged.process(injects("forget it"))
    assert outcome["raised"] == ["LookupError", "this context takes no such message"]
    assert outcome["messages"] == []


async def test_a_handler_without_a_name_is_unknown(judged: Judged) -> None:
    assert await judged.place.run("hook_results.without_a_name") == "unknown"


async def test_a_mapping_is_no_result(judged: Judged) -> None:
    assert await judged.place.run("hook_results.mapping") == ["AttributeError", True]


async def test_whatever_has_the_attributes_of_a_result_is_one(judged: Judged) -> None:
    assert await judged.place.run("hook_results.attribute_style") == ["inject_context", "in style"]


async def test_too_long_an_injection_is_refused_and_leaves_no_trace(judged: Judged) -> None:
    settings = judged.place.coordinator.config["session"]
    settings["injection_size_limit"] = 8
    try:
        errors = await judged.place.run("hook_results.counted", texts=["12345678", "123456789", "1234\x005678"])
    finally:
        del settings["injection_size_limit"]
    assert errors == [None, "Context injection exceeds 8 characters", None]
    assert judged.place.coordinator._current_turn_injections == 4


@pytest.mark.parametrize("ephemeral", [False, True])
async def test_the_budget_of_a_turn_only_warns(judged: Judged, ephemeral: bool) -> None:
    settings = judged.place.coordinator.config["session"]
    settings["injection_budget_per_turn"] = 1
    try:
        errors = await judged.place.run("hook_results.counted", texts=["1234567", "x" * 400], ephemeral=ephemeral)
    finally:
        del settings["injection_budget_per_turn"]
    assert errors == [None, None]
    assert judged.place.coordinator._current_turn_injections == 101


async def test_without_an_approval_system_the_answer_is_no(place: Place) -> None:
    outcome = await place.run("hook_results.processed", result={"action": "ask_user"}, hook_name="guard")
    assert outcome["left"] == {"action": "deny", "reason": "No approval system available"}


async def test_without_a_display_system_a_message_is_no_error(place: Place) -> None:
    outcome = await place.run("hook_results.processed", result={"user_message": "told"}, hook_name="guard")
    assert outcome["left"] == {"action": "continue", "user_message": "told"}


async def test_modules_find_the_systems_that_the_application_has(judged: Judged) -> None:
    overview = await judged.place.run("members.overview")
    assert (overview["has_approval_provider"], overview["has_display_service"]) == (True, True)
