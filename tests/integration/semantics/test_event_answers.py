"""What handlers may answer with, and what an emitter gets of several answers."""

from __future__ import annotations

from typing import Any

from integration.semantics.places import SESSION_ID, Place
from support.rows import each_row

WHERES = ("in the same module", "in another module")
INVALID = {"action": "deny", "reason": "Hook handler returned invalid response"}


def says(name: str, **fields: Any) -> dict[str, Any]:
    """Return a handler that answers with a hook result."""
    return {"name": name, "answer": {"result": fields}}


def injects(name: str, text: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a handler that puts a text into the conversation."""
    return says(name, action="inject_context", context_injection=text, **fields)


def returns(value: Any) -> list[dict[str, Any]]:
    """Return a handler that answers with a plain value, and one after it that answers nothing."""
    return [{"name": "first", "answer": {"value": value}}, {"name": "second", "answer": {}}]


def odd(answer: str) -> list[dict[str, Any]]:
    """Return a handler that answers with what has no place in this table, and one after it that answers nothing."""
    return [{"name": "first", "answer": {"odd": answer}}, {"name": "second", "answer": {}}]


def kind(handler: str, **answer: Any) -> list[dict[str, Any]]:
    """Return a handler of another kind, and one after it that answers nothing."""
    return [{"name": "first", "answer": {"handler": handler, **answer}}, {"name": "second", "answer": {}}]


def continues(**data: Any) -> dict[str, Any]:
    return {"action": "continue", "data": {"session_id": SESSION_ID, "parent_id": None, **data}}


def item(content: str, hook: str, **fields: Any) -> dict[str, Any]:
    return {"content": content, "hook_name": hook, "event": "plan:start", **fields}


DENIED = {
    "action": "deny",
    "reason": "no",
    "user_message": "told",
    "user_message_level": "error",
    "data": {"more": 1},
    "suppress_output": True,
}
BOTH = ["first", "second"]
FIRST = ["first"]

ANSWERS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], list[str]]] = {
    # One answer, and whether the next handler is asked.
    "nothing": (returns(None), continues(), BOTH),
    "a result that says nothing": ([says("first"), says("second")], continues(), BOTH),
    "an empty mapping": (returns({}), continues(), BOTH),
    "a mapping": (returns({"action": "deny", "reason": "no"}), {"action": "deny", "reason": "no"}, FIRST),
    "a mapping with unknown keys": (returns({"action": "deny", "mood": "bad"}), {"action": "deny"}, FIRST),
    "a model of another class": (odd("a model"), {"action": "deny", "reason": "said by a model"}, FIRST),
    "text": (returns("continue"), INVALID, FIRST),
    "a boolean": (returns(True), INVALID, FIRST),
    "no": (returns(False), INVALID, FIRST),
    "zero": (returns(0), INVALID, FIRST),
    "a list": (returns([{"action": "continue"}]), INVALID, FIRST),
    "a tuple": (odd("a tuple"), INVALID, FIRST),
    "bytes": (odd("bytes"), INVALID, FIRST),
    "an object": (odd("an object"), INVALID, FIRST),
    "an unknown action": (returns({"action": "explode"}), INVALID, FIRST),
    "data that is no mapping": (returns({"action": "modify", "data": [1]}), INVALID, FIRST),
    "a reason that is no text": (returns({"action": "deny", "reason": 3}), INVALID, FIRST),
    "a result with an unknown action": (odd("a bad action, assigned"), INVALID, FIRST),
    "a result with data that is no mapping": (odd("data that is no mapping, assigned"), INVALID, FIRST),
    "a result with a function in its data": (odd("data with a function in it"), INVALID, FIRST),
    "an exception": (odd("raises"), continues(), ["first", "second"]),
    "a CancelledError of its own": (odd("raises CancelledError"), continues(), BOTH),
    "a SystemExit": (odd("raises SystemExit"), continues(), BOTH),
    "a KeyboardInterrupt": (odd("raises KeyboardInterrupt"), continues(), BOTH),
    # Every kind of handler.
    "a synchronous handler": (
        kind("sync", result={"action": "deny", "reason": "sync"}),
        {"action": "deny", "reason": "sync"},
        FIRST,
    ),
    "a function that returns a coroutine": (
        kind("returns a coroutine", result={"action": "deny", "reason": "later"}),
        {"action": "deny", "reason": "later"},
        FIRST,
    ),
    "a handler that takes too many arguments": (kind("takes three arguments"), continues(), ["second"]),
    "a handler that cannot be called": (kind("is no function"), continues(), ["second"]),
    # Several answers.
    "a deny keeps all its fields": ([says("first", **DENIED)], DENIED, FIRST),
    "a deny discards what was injected before it": (
        [injects("first", "x"), says("second", action="deny")],
        {"action": "deny"},
        BOTH,
    ),
    "a deny beats a question": (
        [says("first", action="ask_user", approval_prompt="?"), says("second", action="deny")],
        {"action": "deny"},
        BOTH,
    ),
    "the first question is the one asked": (
        [
            injects("first", "x"),
            says("second", action="ask_user", approval_prompt="first?", approval_timeout=3.0),
            says("third", action="ask_user", approval_prompt="second?"),
        ],
        {"action": "ask_user", "approval_prompt": "first?", "approval_timeout": 3.0},
        ["first", "second", "third"],
    ),
    "a question beats an injection that comes after it": (
        [says("first", action="ask_user", approval_prompt="?"), injects("second", "x")],
        {"action": "ask_user", "approval_prompt": "?"},
        BOTH,
    ),
    "an injection beats a modification": (
        [says("first", action="modify", data={"changed": True}), injects("second", "x")],
        {"action": "inject_context", "context_injection": "x", "context_injections": [item("x", "second")]},
        BOTH,
    ),
    "a modification is what the emitter gets, and no more": (
        [says("first", action="modify", data={"b": 2, "a": 1})],
        {"action": "continue", "data": {"a": 1, "b": 2}},
        FIRST,
    ),
    "the last modification counts": (
        [says("first", action="modify", data={"a": 1}), says("second", action="modify", data={"b": 2})],
        {"action": "continue", "data": {"b": 2}},
        BOTH,
    ),
    "a modification to nothing counts": (
        [says("first", action="modify", data={})],
        {"action": "continue", "data": {}},
        FIRST,
    ),
    "a modification without data is none": ([says("first", action="modify")], continues(), FIRST),
    "modified data is converted like any": (
        odd("data of odd values"),
        {"action": "continue", "data": {"bytes": "b'x'", "set": "{7}", "tuple": [1, 2]}},
        BOTH,
    ),
    "what a continue says besides is dropped": (
        [
            says(
                "first",
                action="continue",
                data={"dropped": True},
                user_message="dropped",
                suppress_output=True,
                reason="dropped",
                context_injection="dropped",
            )
        ],
        continues(),
        FIRST,
    ),
    "what a modification says besides is dropped": (
        [says("first", action="modify", data={"a": 1}, user_message="dropped", reason="dropped")],
        {"action": "continue", "data": {"a": 1}},
        FIRST,
    ),
    # Injections.
    "a single injection comes back with its origin": (
        [injects("first", "x", context_injection_role="user", ephemeral=True, user_message="survives")],
        {
            "action": "inject_context",
            "context_injection": "x",
            "context_injection_role": "user",
            "ephemeral": True,
            "user_message": "survives",
            "context_injections": [item("x", "first", role="user", ephemeral=True)],
        },
        FIRST,
    ),
    "an empty text is an injection": (
        [injects("first", "")],
        {"action": "inject_context", "context_injection": "", "context_injections": [item("", "first")]},
        FIRST,
    ),
    "an injection of nothing is none": ([injects("first")], continues(), FIRST),
    "several injections become one": (
        [
            injects(
                "first",
                "one",
                context_injection_role="user",
                ephemeral=True,
                suppress_output=True,
                user_message="dropped",
            ),
            injects("second", "two", append_to_last_tool_result=True),
            says("third", action="continue"),
        ],
        {
            "action": "inject_context",
            "context_injection": "one\n\ntwo",
            "context_injection_role": "user",
            "ephemeral": True,
            "suppress_output": True,
            "append_to_last_tool_result": True,
            "context_injections": [
                item("one", "first", role="user", ephemeral=True),
                item("two", "second", append_to_last_tool_result=True),
            ],
        },
        ["first", "second", "third"],
    ),
    "several have the first role and last as short as any": (
        [
            injects("first", "one"),
            injects("second", "two", context_injection_role="assistant", ephemeral=True, suppress_output=True),
        ],
        {
            "action": "inject_context",
            "context_injection": "one\n\ntwo",
            "ephemeral": True,
            "context_injections": [item("one", "first"), item("two", "second", role="assistant", ephemeral=True)],
        },
        BOTH,
    ),
    "a list of injections outweighs the text beside it": (
        [
            injects(
                "first",
                "ignored",
                context_injection_role="assistant",
                context_injections=[
                    {"content": "one", "role": "user", "hook_name": "made up", "event": "made up"},
                    {"content": "two", "ephemeral": True},
                ],
            )
        ],
        {
            "action": "inject_context",
            "context_injection": "one\n\ntwo",
            "context_injection_role": "user",
            "ephemeral": True,
            "context_injections": [item("one", "first", role="user"), item("two", "first", ephemeral=True)],
        },
        FIRST,
    ),
    "lists and texts are joined in order": (
        [injects("first", context_injections=[{"content": "one"}, {"content": "two"}]), injects("second", "three")],
        {
            "action": "inject_context",
            "context_injection": "one\n\ntwo\n\nthree",
            "context_injections": [item("one", "first"), item("two", "first"), item("three", "second")],
        },
        BOTH,
    ),
}


@each_row("where", WHERES)
@each_row("case", ANSWERS)
async def test_answers_come_to_one_result(place: Place, where: str, case: str) -> None:
    handlers, expected, heard = ANSWERS[case]
    outcome = await place.run("events.chain", where=where, handlers=handlers)
    outcome["result"].get("data", {}).pop("timestamp", None)
    assert outcome["result"] == expected
    assert [name for name, _ in outcome["heard"]] == heard
