from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from paddock.plan.plain_data import MAX_DEPTH, MAX_VALUES, PlainData
from support.rows import each_row


def problems_of(value: object) -> list[tuple[str, str]]:
    plain = PlainData()
    plain.copy(value)
    return [(problem.path, problem.message) for problem in plain.problems]


def test_a_copy_is_equal_and_shares_nothing() -> None:
    original: dict[str, Any] = {"a": [1, 2.5, None, True, "x", {"b": []}]}
    copy = PlainData().copy(original)
    assert copy == original
    original["a"][5]["b"].append(1)
    assert copy["a"][5]["b"] == []


def test_a_tuple_becomes_a_list() -> None:
    assert PlainData().copy({"a": (1, 2)}) == {"a": [1, 2]}


@each_row(
    ("value", "said"),
    [
        (float("nan"), "not a finite number"),
        (float("inf"), "not a finite number"),
        (2**64, "beyond 64 bits"),
        (-(2**63) - 1, "beyond 64 bits"),
        (10**5000, "beyond 64 bits"),
        ("\ud800", "surrogate"),
        (b"x", "a bytes"),
        ({1, 2}, "a set"),
        (datetime.date(2024, 1, 1), "a date"),
        (Path("/x"), "Path"),
        ({True: 1}, "key `True` is not text"),
        ({(1, 2): 1}, "is not text"),
        ({"\udfff": 1}, "surrogate"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_cross_to_a_module_is_a_problem_at_its_place(value: object, said: str) -> None:
    ((path, message),) = problems_of({"tools": [{"config": value}]})
    assert path == "tools[0].config"
    assert said in message


def test_the_largest_integers_of_the_wire_are_kept() -> None:
    assert PlainData().copy([2**64 - 1, -(2**63)]) == [2**64 - 1, -(2**63)]


def test_odd_keys_are_quoted_in_places() -> None:
    assert problems_of({"a b": {"ok": [b""]}})[0][0] == "a b.ok[0]"
    assert problems_of({"x": {"a.b": b""}})[0][0] == 'x["a.b"]'


def test_a_loop_of_objects_ends_at_the_depth_limit() -> None:
    loop: list[object] = []
    loop.append(loop)
    ((_, message),) = problems_of({"a": loop})
    assert message == f"is nested more than {MAX_DEPTH} levels deep"


@pytest.mark.costly
def test_a_bush_of_shared_objects_ends_at_the_limit_of_values() -> None:
    bush: list[object] = ["x"]
    for _ in range(30):
        bush = [bush, bush]
    ((_, message),) = problems_of({"a": bush})
    assert message == f"has more than {MAX_VALUES} values"
