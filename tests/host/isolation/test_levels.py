"""The strongest level that can be had, and nothing below the floor that nobody accepted."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from failures import failing
from paddock.errors import IsolationUnavailableError, LevelFailure, PolicyRefusedError, render
from paddock.isolation.levels import choose_level, guarantees_missing
from paddock.plan.source_map import Location
from paddock.policy.rule import Floor, Rule
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel
from support.rows import each_row

from ..policy.entries import entry

FAILURES: dict[IsolationLevel, LevelFailure] = {
    "ns": LevelFailure("clone", errno.EPERM, "Operation not permitted", "allow user namespaces"),
    "bwrap": LevelFailure("bubblewrap", 0, "the program bwrap is not installed"),
}


def choose(wanted: str | None, reachable: set[IsolationLevel], *, trusted: bool = False) -> IsolationLevel:
    return choose_level(entry(isolation=wanted), reachable=reachable, failures=FAILURES, trusted=trusted)


@each_row(
    ("wanted", "reachable", "trusted", "chosen"),
    [
        (None, {"ns", "bwrap", "landlock"}, False, "ns"),
        (None, {"bwrap", "landlock"}, False, "bwrap"),
        (None, {"landlock"}, True, "landlock"),
        ("ns", {"ns"}, False, "ns"),
        ("bwrap", {"ns", "bwrap"}, False, "bwrap"),
        ("landlock", {"ns", "landlock"}, True, "landlock"),
        ("none", {"ns"}, True, "none"),
        ("none", set(), True, "none"),
    ],
)
def test_the_level_is_what_the_plan_says_or_the_strongest_there_is(
    wanted: str | None, reachable: set[IsolationLevel], trusted: bool, chosen: str
) -> None:
    assert choose(wanted, reachable, trusted=trusted) == chosen


@each_row("wanted", ["landlock", "none"])
def test_less_than_the_floor_takes_somebody_who_accepts_it(wanted: str) -> None:
    with failing("IsolationRefusedError") as caught:
        choose(wanted, {"ns", "landlock", "none"})
    assert caught.value.exit_code == 4
    shown = render(caught.value)
    assert shown.startswith(f"error: tools[0].isolation: isolation level `{wanted}` is weaker than `ns` and `bwrap`")
    assert f"not given: {guarantees_missing(wanted)[0]}" in shown  # type: ignore[arg-type]
    assert "`--trust-plan`" in shown and f"`--isolation {wanted}`" in shown


def test_a_floor_that_is_higher_or_lower_than_ours_counts() -> None:
    choice = choose_level(
        entry(isolation="landlock"), reachable={"landlock"}, failures={}, trusted=False, floor=Floor(("ns", "landlock"))
    )
    assert choice == "landlock"
    with pytest.raises(IsolationUnavailableError):
        choose_level(entry(), reachable={"bwrap"}, failures=FAILURES, trusted=False, floor=Floor(("ns",)))


def test_only_the_strongest_level_lacks_nothing() -> None:
    assert [bool(guarantees_missing(level)) for level in ISOLATION_LEVELS] == [False, True, True, True]


@each_row(
    ("wanted", "named", "chosen"),
    [
        (None, "landlock", "landlock"),
        (None, "none", "none"),
        ("landlock", "landlock", "landlock"),
        ("ns", "none", "ns"),
    ],
)
def test_a_level_that_the_operator_names_is_accepted_by_that(
    wanted: str | None, named: IsolationLevel, chosen: str
) -> None:
    one = entry(isolation=wanted)
    level = choose_level(one, reachable={"ns", "landlock"}, failures={}, trusted=False, named=named)
    assert level == chosen


@each_row(("wanted", "named"), [("none", "landlock"), ("landlock", "none"), ("landlock", "ns")])
def test_naming_one_level_accepts_no_other(wanted: str, named: IsolationLevel) -> None:
    with failing("IsolationRefusedError"):
        choose_level(entry(isolation=wanted), reachable={"ns", "landlock"}, failures={}, trusted=False, named=named)


MINIMUM = Floor.at("bwrap", Rule(Location("/etc/paddock/policy.toml", 3), "minimum_isolation = bwrap"))


@each_row(("wanted", "named"), [("landlock", None), (None, "landlock"), (None, "none"), ("none", "none")])
@each_row("trusted", [True, False])
def test_a_floor_that_a_policy_set_is_never_lowered(
    wanted: str | None, named: IsolationLevel | None, trusted: bool
) -> None:
    one = entry(isolation=wanted)
    reachable: set[IsolationLevel] = {"ns", "landlock", "none"}
    assert choose_level(one, reachable=reachable, failures={}, trusted=True, named=named) != "ns"
    with pytest.raises(PolicyRefusedError) as caught:
        choose_level(one, reachable=reachable, failures={}, trusted=trusted, named=named, floor=MINIMUM)
    assert "by /etc/paddock/policy.toml:3: minimum_isolation = bwrap" in render(caught.value)


UNAVAILABLE: list[tuple[dict[str, Any], list[str], list[str]]] = [
    # what is asked for, what the refusal says, and what it does not say
    (
        {"plan": entry(isolation="ns"), "trusted": True},
        [
            "error: tools[0].isolation: isolation level `ns` is unavailable on this machine",
            "ns: clone: Operation not permitted (EPERM)",
            "hint: allow user namespaces",
        ],
        ["weaker"],
    ),
    (
        {},
        [
            "error: tools[0]: neither isolation level `ns` nor `bwrap` is available",
            "bwrap: bubblewrap: the program bwrap is not installed",
            "`--isolation landlock`, or `--trust-plan`, accepts the weaker level `landlock`",
        ],
        [],
    ),
    ({"reachable": {"none"}, "trusted": True}, ["error: "], ["--isolation none"]),
    ({"named": "ns"}, ["error: isolation level `ns` is unavailable on this machine"], []),
    ({"plan": entry(path="")}, ["`--isolation landlock` accepts"], ["--trust-plan"]),
    (
        {"trusted": True, "floor": MINIMUM},
        ["the minimum is set by /etc/paddock/policy.toml:3"],
        ["accepts"],
    ),
]


@each_row(("asked", "said", "unsaid"), UNAVAILABLE)
def test_a_level_that_cannot_be_had_is_refused_with_what_helps(
    asked: dict[str, Any], said: list[str], unsaid: list[str]
) -> None:
    given: dict[str, Any] = {"reachable": {"landlock"}, "failures": FAILURES, "trusted": False, **asked}
    with pytest.raises(IsolationUnavailableError) as caught:
        choose_level(given.pop("plan", entry()), **given)
    assert caught.value.exit_code == 1
    shown = render(caught.value)
    assert all(part in shown for part in said) and not any(part in shown for part in unsaid)


def test_a_floor_that_a_policy_lowered_is_chosen_without_leave() -> None:
    floor = Floor.at("landlock", Rule(Location("policy.toml", 1), "minimum_isolation = landlock"))
    assert choose_level(entry(), reachable={"landlock"}, failures=FAILURES, trusted=False, floor=floor) == "landlock"
