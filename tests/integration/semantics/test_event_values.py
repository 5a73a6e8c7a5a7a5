"""What event data becomes on its way to handlers and back to the emitter."""

from __future__ import annotations

from typing import Any

import pytest

from integration.semantics.places import Place
from support.rows import each_row

WHERES = ("in the same module", "in another module")

CONVERTED: dict[str, Any] = {
    "a tuple": [1, [2, 3]],
    "a named tuple": [1, 2],
    "numbers as keys": {"10": "a", "2.5": "c", "9": "b"},
    "None and booleans as keys": {"false": 1, "null": 0, "true": 2},
    "enums as keys": {"3": 2, "red": 1},
    "bytes": "b'ab\\xff'",
    "a bytearray": "bytearray(b'ab')",
    "a set": "{7}",
    "a frozenset": "frozenset({7})",
    "a time": "2024-01-02 03:04:00+00:00",
    "a day": "2024-01-02",
    "a while": "1 day, 1:00:00",
    "an exception": "it went wrong",
    "an exception of several arguments": "[Errno 2] no such file: 'x'",
    "an object": "described by itself",
    "an object that can be called": "described by itself",
    "a dataclass": "Point(x=1, y=2)",
    "a path": "/a/b",
    "a decimal": "1.50",
    "a uuid": "00000000-0000-0000-0000-000000000007",
    "an enum": "Plain.A",
    "a text enum": "red",
    "a number enum": 3,
    "a complex number": "(1+2j)",
    "a tool result": "{'stdout': 'hi', 'rc': 0}",
    "a failed tool result": "Error: no",
    "a hook result": "deny",
    "a content block": "type='text' text='hi' visibility=None",
    "a model in a list": [
        (
            "input_tokens=1 output_tokens=2 total_tokens=3 reasoning_tokens=None cache_read_tokens=None "
            "cache_write_tokens=None cost_usd=None"
        )
    ],
    "an ordered dict": {"a": 2, "b": 1},
    "keys in disorder": {"a": {"x": 2, "y": 1}, "b": [{"a": 2, "z": 1}]},
    "the largest integer": 2**64 - 1,
    "a wider integer": float(2**64),
    "the smallest integer": -(2**63),
    "a wider negative integer": -float(2**63),
    "a float": 0.1,
    "a whole float": 1.0,
    "text beyond ASCII": "Gänse 🪿",
    "empty things": [None, "", [], {}, []],
}

REFUSED = {
    "not a number": ("RuntimeError", "Invalid JSON"),
    "infinity": ("RuntimeError", "Invalid JSON"),
    "an integer past all floats": ("RuntimeError", "Invalid JSON"),
    "a tuple as a key": ("TypeError", "tuple"),
    "an object as a key": ("TypeError", "Described"),
}

LIVE = {
    "a lambda": "a function",
    "a function": "a function",
    "a builtin": "a function",
    "a bound method": "a function",
    "a class": "a class",
    "a module": "a module",
    "a coroutine": "a coroutine",
    "a generator": "a generator",
    "an async generator": "a generator",
    "an open file": "an open file",
    "a socket": "a socket",
    "a lock": "a lock",
    "an asyncio lock": "a lock",
    "a thread": "a thread",
}


@each_row("where", WHERES)
@each_row("case", CONVERTED)
async def test_a_value_is_the_same_json_for_every_handler_and_for_the_emitter(
    place: Place, where: str, case: str
) -> None:
    expected = CONVERTED[case]
    outcome = await place.run("event_values.converted", where=where, case=case)
    assert outcome == {"seen": [expected], "returned": [expected, expected]}
    for value in (*outcome["seen"], *outcome["returned"]):
        assert _spelled(value) == _spelled(expected)


@each_row("where", WHERES)
@each_row("case", REFUSED)
async def test_data_without_a_json_form_is_the_emitters_error(place: Place, where: str, case: str) -> None:
    kind, said = REFUSED[case]
    outcome = await place.run("event_values.converted", where=where, case=case)
    assert outcome["raised"][0] == kind
    assert said in outcome["raised"][1]


@each_row("case", LIVE)
@pytest.mark.difference("a function, a lock or an open file in event data raises an error")
async def test_a_value_of_one_process_is_an_error_that_names_its_place(place: Place, case: str) -> None:
    error = ["CannotCrossError", 'data["deep"][0]["value"]', LIVE[case]]
    outcome = await place.run("event_values.refused", where="in another module", case=case)
    assert outcome == {"errors": [error, error], "heard": []}


@each_row("where", WHERES)
async def test_a_model_is_data_of_its_fields(place: Place, where: str) -> None:
    outcome = await place.run("event_values.a_model_at_the_top", where=where)
    assert {"success": True, "output": [1, 2], "error": None}.items() <= outcome["seen"].items()
    assert outcome["seen"] == outcome["returned"]


def _spelled(value: Any) -> str:
    """Return what tells keys in another order, and an integer from a float."""
    return repr(value)
