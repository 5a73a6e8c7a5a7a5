"""Constraints are a package and its versions and nothing more; two without a common version are named with places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failures import failing
from paddock_sources.constraints import (
    Constraint,
    ConstraintTextError,
    DependencyRules,
    refuse_contradictions,
)
from support.rows import each_row


@each_row(
    ("text", "normal"),
    [
        ("mcp<2", "mcp<2"),
        (" MCP >=1 , <2 ", "mcp<2,>=1"),
        ("Some_Package.x==1.*", "some-package-x==1.*"),
        ("a~=1.4", "a~=1.4"),
        ("a!=1.2.3", "a!=1.2.3"),
        ("a (<2)", "a<2"),
    ],
)
def test_a_constraint_is_a_name_with_versions(text: str, normal: str) -> None:
    found = Constraint.parse(text)
    assert (found.text, Constraint.parse(found.text)) == (normal, found)


@each_row(
    ("text", "said"),
    [
        (7, "must be text"),
        ("mcp", "names no versions"),
        ("", "no package with versions"),
        ("mcp[cli]<2", "has extras"),
        ("mcp @ https://example.com/mcp.whl", "names no source"),
        ("mcp @ git+https://example.com/mcp", "names no source"),
        ("mcp<2; python_version > '3'", "a condition after `;`"),
        ("./mcp<2", "no package with versions"),
        ("-r other.txt", "no package with versions"),
        ("--index-url=https://x", "no package with versions"),
        ("mcp<2\n--index-url https://x", "unprintable"),
        ("mcp===2", "with `===`"),
        ("mcp<" + "1" * 300, "longer than 200"),
        ("mcp" + ",".join(f"!={number}" for number in range(9)), "more than 8 conditions"),
        ("amplifier_core<2", "always Paddock's own"),
    ],
)
def test_anything_else_is_refused_by_what_it_is(text: object, said: str) -> None:
    with pytest.raises(ConstraintTextError) as caught:
        Constraint.parse(text)
    assert said in caught.value.problem


@given(st.text(max_size=60))
def test_an_accepted_text_is_one_plain_line(text: str) -> None:
    try:
        found = Constraint.parse(text)
    except ConstraintTextError:
        return
    assert found.text.isprintable() and not {*found.text} & set(" @;[]/\\'\"#")
    assert not found.text.startswith("-")


@each_row(
    ("texts", "culprits"),
    [
        (["mcp<2", "mcp>=2"], [0, 1]),
        (["mcp>=1", "mcp<2", "mcp==3"], [1, 2]),
        (["a==1.*", "a!=1.*"], [0, 1]),
        (["a>2,<2"], [0]),
        (["a<1", "b>2", "a>=1"], [0, 2]),
        (["a>=1,!=1.5", "a==1.5"], [0, 1]),
    ],
)
def test_contradictions_name_their_places(texts: list[str], culprits: list[int]) -> None:
    written = [Constraint.parse(text, f"plan.yaml:{line}") for line, text in enumerate(texts)]
    with failing("ConstraintsContradictError") as caught:
        refuse_contradictions(written)
    for line in range(len(texts)):
        assert (f"(plan.yaml:{line})" in caught.value.summary) == (line in culprits)


@each_row(
    "texts",
    [
        ["mcp<2", "mcp>1.9"],
        ["a~=1.4", "a<1.5"],
        ["a>1.0a1", "a<1.0b1"],
        ["a>=1!2", "a<1!3"],
        ["a==2.0+local"],
        ["a<2", "b>2"],
        ["a>1.0.post1", "a<1.0.post3"],
    ],
)
def test_constraints_with_a_common_version_pass(texts: list[str]) -> None:
    refuse_contradictions([Constraint.parse(text) for text in texts])


def test_rules_name_the_versions_that_break_them() -> None:
    rules = DependencyRules((Constraint.parse("leaf<2", "sources.toml:1"),))
    assert rules.broken_by([("leaf", "1.5"), ("other", "9")]) == ()
    (broken,) = rules.broken_by([("Leaf", "2.0"), ("other", "9")])
    assert broken.shown == "leaf 2.0, where only `leaf<2` (sources.toml:1) is wanted"


def test_many_constraints_of_one_package_are_refused_uncompared() -> None:
    many = [Constraint.parse(f"mcp!={number}", f"`constraints[{number}]`") for number in range(9)]
    refuse_contradictions(many[1:])
    with failing("ConstraintsContradictError", "`mcp` has 9 constraints"):
        refuse_contradictions(many)


def test_what_several_entries_repeat_counts_once() -> None:
    several = [DependencyRules((Constraint.parse("leaf<2", f"plan.yaml:{line}"),)) for line in range(20)]
    (kept,) = DependencyRules().joined(*several).constraints
    assert kept.shown == "`leaf<2` (plan.yaml:0)"
