"""References to secrets in configurations and variables: found with their place, honoured for their own entry only."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paddock.plan.permissions import Permissions, SecretGrant
from paddock.plan.secret_references import (
    expanded,
    literal,
    reference_problems,
    references,
    secrets_in_use,
    variable_references,
)
from support.rows import each_row

GRANTED = Permissions.model_validate(
    {"env": ["PLAIN", "KEY=${KEY}"], "secrets": ["KEY", {"name": "HELD", "inject": "a.example"}]}
)


@each_row(
    ("config", "found"),
    [
        ({"a": "${KEY}"}, [("config.a", "KEY")]),
        ({"a": ["x${KEY}y${OTHER}"]}, [("config.a[0]", "KEY"), ("config.a[0]", "OTHER")]),
        ({"a b": {"c": "${KEY}"}}, [('config["a b"].c', "KEY")]),
        ({"a": "$KEY ${} ${1A} $${", "b": 5, "c": None}, []),
        ({"a": "$${KEY} $$${KEY:-x} $x${OTHER}"}, [("config.a", "OTHER")]),
    ],
)
def test_a_reference_is_found_with_its_place(config: Any, found: list[tuple[str, str]]) -> None:
    assert [(one.place, one.name) for one in references(config, "config")] == found


def test_only_an_injected_secret_becomes_a_placeholder() -> None:
    config = {"a": "Bearer ${HELD}", "b": ["${KEY}"], "c": "${NOT_GRANTED}"}
    values = {"KEY": "the-key", "HELD": "the-value", "NOT_GRANTED": "x"}
    assert expanded(config, GRANTED, values, {"HELD": "stands-for-it"}) == {
        "a": "Bearer stands-for-it",
        "b": ["the-key"],
        "c": "${NOT_GRANTED}",
    }


def test_the_value_of_an_injected_secret_is_handed_out_by_no_mistake() -> None:
    assert expanded("${HELD}", GRANTED, {"HELD": "the-value"}) == "${HELD}"


@each_row(
    ("env", "secrets", "said"),
    [
        ("KEY=${KEY}", ["KEY"], None),
        ("KEY=Bearer ${KEY}", ["KEY"], None),
        ("KEY=${OTHER}", ["KEY"], "`${OTHER}` is a secret that this entry is not granted"),
        ("KEY=${KEY}", [], "not granted"),
        ("KEY=${GONE}", ["GONE"], "`GONE` is not set"),
        ("KEY=${KEY:-x}", ["KEY"], "has a default"),
        ("KEY", [], None),
        ("KEY=$KEY", [], None),
    ],
)
def test_a_reference_in_a_variable_is_checked_like_one_in_a_configuration(
    env: str, secrets: list[str], said: str | None
) -> None:
    permissions = Permissions(env=("FIRST=1", env), secrets=tuple(SecretGrant(name=name) for name in secrets))
    named = variable_references(permissions, "tools[0].permissions")
    found = list(reference_problems(named, permissions, {"KEY", "OTHER"}))
    assert [problem.path for problem in found] == (["tools[0].permissions.env[1]"] if said else [])
    assert all(said in problem.message for problem in found if said)


def test_what_has_no_value_says_where_one_can_come_from() -> None:
    (problem,) = reference_problems(references({"k": "${KEY}"}, "config"), GRANTED, {})
    assert "export KEY`" in problem.hint and "secrets.toml" in problem.hint


@each_row(
    ("config", "used"),
    [
        ({}, ("KEY", "HELD")),
        ({"k": "${PLAIN}"}, ("KEY", "HELD")),
    ],
)
def test_secrets_are_in_use_where_they_are_referred_to_or_injected(config: Any, used: tuple[str, ...]) -> None:
    assert secrets_in_use(config, GRANTED) == used


def test_a_secret_that_nothing_refers_to_is_not_in_use() -> None:
    assert secrets_in_use({"k": "${B}"}, Permissions(secrets=(SecretGrant(name="A"), SecretGrant(name="B")))) == ("B",)


@given(st.text() | st.text("${}A:-"))
def test_text_of_somebody_else_is_written_without_a_reference(text: str) -> None:
    permissions = Permissions(secrets=(SecretGrant(name="A"),))
    assert expanded(literal(text), permissions, {"A": "value"}) == text
    assert not list(references(literal(text)))
