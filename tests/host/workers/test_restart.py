"""When a module that died is started again: a table, and what holds for every policy."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.workers.restart import RestartPolicy, RestartState
from support.rows import each_row

POLICY = RestartPolicy(initial_delay=1, factor=2, max_delay=5, max_deaths=5, window=100)


def after(deaths: list[float], policy: RestartPolicy = POLICY) -> RestartState:
    state = RestartState()
    for death in deaths:
        state = state.after_death(policy, death)
    return state


@each_row(
    ("deaths", "now", "delay", "quarantined"),
    [
        ([], 0, 0, False),
        ([10], 10, 0, False),
        ([10, 20], 20, 1, False),
        ([10, 20], 20.25, 0.75, False),
        ([10, 20], 21, 0, False),
        ([10, 20, 30], 30, 2, False),
        ([10, 20, 30, 40], 40, 4, False),
        ([10, 20, 30, 40, 50], 50, 5, True),
        # Deaths leave the window one by one, and the delay shrinks with them.
        ([10, 20, 119.5], 119.5, 1, False),
        ([10, 20, 130], 130, 0, False),
        ([10, 20, 30, 40, 141], 141, 0, False),
        # Quarantine does not end with the window.
        ([10, 20, 30, 40, 50], 500, 0, True),
        ([10, 20, 30, 40, 50, 500], 500, 0, True),
    ],
)
def test_deaths_decide_the_delay_and_the_quarantine(
    deaths: list[float], now: float, delay: float, quarantined: bool
) -> None:
    state = after(deaths)
    assert max(0, state.not_before - now) == pytest.approx(delay)
    assert state.quarantined is quarantined


def test_a_single_death_can_be_the_end() -> None:
    assert after([1.0], RestartPolicy(max_deaths=1)).quarantined


@given(
    gaps=st.lists(st.floats(min_value=0, max_value=1000), min_size=1, max_size=200),
    factor=st.floats(min_value=1, max_value=1e6),
    max_deaths=st.integers(min_value=1, max_value=200),
)
def test_a_delay_is_never_negative_nor_longer_than_the_longest(
    gaps: list[float], factor: float, max_deaths: int
) -> None:
    policy = RestartPolicy(initial_delay=0.1, factor=factor, max_delay=10, max_deaths=max_deaths, window=300)
    state, now, states = RestartState(), 0.0, []
    for gap in gaps:
        now += gap
        state = state.after_death(policy, now)
        states.append(state)
        assert 0 <= state.not_before - now <= 10 + 1e-6
        assert len(state.deaths) <= max(len(gaps), 1)
    assert all(later.quarantined or not earlier.quarantined for earlier, later in pairwise(states))
