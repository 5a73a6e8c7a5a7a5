"""Shared state: what one process changes in place is noticed, and brings another to the same state."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from paddock_sdk.protocol.body import Codec
from paddock_sdk.protocol.shared_state import SharedState, patch
from support.rows import each_row

from .wire_inputs import same, stateful, thorough


def _state(live: dict[Any, Any]) -> SharedState:
    state = SharedState(Codec())
    state.live = live
    return state


@each_row(
    ("before", "after", "changes"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"a": 1}, {"a": 1}, [], id="no change"),
        pytest.param({}, {"a": 1}, [[["a"], [1]]], id="a new key"),
        pytest.param({"a": 1}, {"a": 2}, [[["a"], [2]]], id="a new value"),
        pytest.param({"a": 1}, {}, [[["a"], []]], id="a key that is gone"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"b": 3, "c": 2}}, [[["a", "b"], [3]]], id="deep inside"),
        pytest.param({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, [[["a", "b"], []]], id="gone deep inside"),
        pytest.param({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, [[["a", "c"], [2]]], id="new deep inside"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, [[["a"], [[1, 2]]]], id="lists are sent whole"),
        pytest.param({"a": {"b": 1}}, {"a": 1}, [[["a"], [1]]], id="a mapping becomes a number"),
        pytest.param({"a": 1}, {"a": {"b": 1}}, [[["a"], [{"b": 1}]]], id="a number becomes a mapping"),
        pytest.param({"a": 1}, {"a": True}, [[["a"], [True]]], id="equal but of another type"),
        pytest.param({"a": [1]}, {"a": [True]}, [[["a"], [[True]]]], id="the same inside a list"),
        pytest.param({"a": {"b": [1.0]}}, {"a": {"b": [1]}}, [[["a", "b"], [[1]]]], id="and deeper"),
        pytest.param({"a": None}, {"a": None}, [], id="none is a value"),
        pytest.param({"a": {}}, {"a": {"b": {}}}, [[["a", "b"], [{}]]], id="an empty mapping is one"),
        pytest.param({1: "x"}, {1: "y"}, [[[1], ["y"]]], id="keys need not be text"),
    ],
)
def test_what_changed_is_told_by_path(before: dict[Any, Any], after: dict[Any, Any], changes: list[Any]) -> None:
    state = _state(copy.deepcopy(before))
    state.changes()
    state.live = copy.deepcopy(after)
    assert state.changes() == changes
    assert state.changes() == [], "it is known now"


def test_not_a_number_is_the_same_as_itself() -> None:
    live = {"a": float("nan"), "b": {"c": float("nan"), "d": 1}}
    state = _state(live)
    state.changes()
    live["b"] = {"c": float("nan"), "d": 2}
    assert state.changes() == [[["b", "d"], [2]]]


def test_what_cannot_be_sent_stays_home_until_it_can() -> None:
    live: dict[str, Any] = {"good": 1, "bad": object(), "worse": {"inside": [object()]}}
    state = _state(live)
    assert state.changes() == [[["good"], [1]]]
    live["bad"] = 2
    assert state.changes() == [[["bad"], [2]]]
    live["bad"] = object()
    assert state.changes() == []
    live["bad"] = 3
    assert state.changes() == [[["bad"], [3]]]


def test_what_others_change_is_not_told_back() -> None:
    live: dict[str, Any] = {"mine": 1}
    state = _state(live)
    state.changes()
    state.apply([[["theirs"], [{"a": {"b": 1}}]], [["theirs", "a", "b"], [2]], [["mine"], []]])
    assert live == {"theirs": {"a": {"b": 2}}}
    assert state.changes() == []
    live["theirs"]["a"]["b"] = 3
    assert state.changes() == [[["theirs", "a", "b"], [3]]]


def test_all_that_others_know_of_a_key_is_one_message_that_makes_it_so() -> None:
    live: dict[str, Any] = {"mine": {"a": [1]}}
    state = _state(live)
    assert state.whole("mine") is None, "nobody has been told"
    state.changes()
    state.apply([[["theirs"], [{"b": 1}]], [["theirs", "b"], [2]]])
    live["mine"]["a"].append(2)
    for key, known in (("mine", {"a": [1]}), ("theirs", {"b": 2})):
        message = state.whole(key)
        assert message is not None and Codec().decode(message) == [[[key], [known]]]
    assert state.whole("nothing") is None


@each_row("after", [[], ["small again"]])
def test_an_oversized_shared_value_is_sent_when_it_shrinks(after: list[str]) -> None:
    live: dict[str, Any] = {}
    state = _state(live)
    half = [0] * 140_000
    state.apply([[["key"], [{"one": half}]], [["key", "two"], [half]]])
    assert state.changes() == []
    assert state.whole("key") is None
    patch(live, ["key"], after)
    assert state.changes() == [[["key"], after]]


def test_a_local_change_before_a_remote_one_is_still_sent() -> None:
    live: dict[str, Any] = {"mine": 1, "theirs": 1}
    state = _state(live)
    state.changes()
    live["mine"] = 2
    state.apply([[["theirs"], [2]]])
    assert state.changes() == [[["mine"], [2]]]


@each_row(
    ("path", "value", "after"),
    [
        (["a"], [1], {"a": 1, "b": {"c": 1}, "n": 1}),
        (["b", "c"], [2], {"b": {"c": 2}, "n": 1}),
        (["b", "c"], [], {"b": {}, "n": 1}),
        (["b", "new"], [None], {"b": {"c": 1, "new": None}, "n": 1}),
        (["absent"], [], {"b": {"c": 1}, "n": 1}),
        (["absent", "x"], [1], {"b": {"c": 1}, "n": 1}),
        (["n", "x"], [1], {"b": {"c": 1}, "n": 1}),
        (["b", "c", "x"], [], {"b": {"c": 1}, "n": 1}),
    ],
)
def test_a_patch_sets_or_removes_a_path_and_ignores_unknown_ones(
    path: list[Any], value: list[Any], after: dict[str, Any]
) -> None:
    target: dict[str, Any] = {"b": {"c": 1}, "n": 1}
    patch(target, path, value)
    assert target == after


keys = st.sampled_from(["a", "b", "c", 1])
leaves = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False), st.text(max_size=2))
nested: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=10,
)
states = st.dictionaries(keys, nested, max_size=4)


@thorough
@given(states, states)
def test_the_changes_between_two_states_turn_one_into_the_other(before: dict[Any, Any], after: dict[Any, Any]) -> None:
    state = _state(copy.deepcopy(before))
    state.changes()
    state.live = copy.deepcopy(after)
    follower = copy.deepcopy(before)
    for path, value in state.changes():
        patch(follower, path, copy.deepcopy(value))
    assert same(_sorted(follower), _sorted(after))


def _sorted(value: Any) -> Any:
    """Return `value` with the keys of its mappings in one order; that order is not shared."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=repr)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@stateful
class TwoProcesses(RuleBasedStateMachine):
    """Two processes that write in turn, each told of the other's changes: they always agree."""

    def __init__(self) -> None:
        super().__init__()
        self.states = (_state({}), _state({}))

    @rule(side=st.sampled_from([0, 1]), key=keys, value=nested)
    def write(self, side: int, key: Any, value: Any) -> None:
        self.states[side].live[key] = copy.deepcopy(value)
        self._tell(side)

    @rule(side=st.sampled_from([0, 1]), key=keys)
    def remove(self, side: int, key: Any) -> None:
        self.states[side].live.pop(key, None)
        self._tell(side)

    @rule(side=st.sampled_from([0, 1]), outer=keys, inner=keys, value=leaves)
    def write_inside(self, side: int, outer: Any, inner: Any, value: Any) -> None:
        mapping = self.states[side].live.get(outer)
        if isinstance(mapping, dict):
            mapping[inner] = value
            self._tell(side)

    def _tell(self, side: int) -> None:
        self.states[1 - side].apply(copy.deepcopy(self.states[side].changes()))
        assert self.states[side].changes() == []

    @invariant()
    def both_agree_and_have_nothing_to_tell(self) -> None:
        first, second = self.states
        assert same(_sorted(first.live), _sorted(second.live))
        assert first.changes() == [] and second.changes() == []


TestTwoProcesses = TwoProcesses.TestCase


def test_what_cannot_be_sent_is_said_once_of_each_key() -> None:
    kept: list[tuple[object, object]] = []
    state = SharedState(Codec(), on_kept=lambda key, value: kept.append((key, value)))
    own = object()
    state.live = {"own": own, "told": 1}
    assert state.changes() == [[["told"], [1]]]
    state.live["own again"] = own
    for _ in range(3):
        assert state.changes() == []
    assert kept == [("own", own), ("own again", own)]


def test_what_is_left_for_others_is_gone_as_data_and_told_when_it_goes() -> None:
    left: list[object] = []
    state = SharedState(Codec(), on_kept=lambda key, value: not left.append(value))
    state.live = {"it": 1}
    assert state.changes() == [[["it"], [1]]]
    first, second = object(), object()
    state.live["it"] = first
    assert state.changes() == [[["it"], []]]
    state.live["it"] = second
    assert state.changes() == [] and left == [first, second]
    state.live["it"] = 2
    assert state.changes() == [[["it"], [2]]]
    state.live["it"] = first
    del state.live["it"]
    assert state.changes() == [[["it"], []]]


def test_a_live_object_of_others_is_no_change_until_it_is_taken_away() -> None:
    left: list[object] = []
    state = SharedState(Codec(), on_kept=lambda key, value: not left.append(value))
    state.take_live("it", object())
    assert state.changes() == [] and "it" in state.live and not left
    state.drop_live("it")
    assert state.changes() == [] and "it" not in state.live
    state.take_live("it", object())
    del state.live["it"]
    assert state.changes() == [[["it"], []]]  # its owner's, who has the host say so
