"""A budget: so much at once, so much a second after that, and one flood for all that is over it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.token_bucket import TokenBucket
from support.rows import each_row


def test_so_much_is_admitted_at_once_and_the_rest_as_time_goes_by() -> None:
    budget = TokenBucket(per_second=2, at_once=3)
    assert [budget.admits(100.0) for _ in range(4)] == [True, True, True, False]
    assert [budget.admits(100.5), budget.admits(100.5)] == [True, False]
    assert [budget.admits(200.0) for _ in range(4)] == [True, True, True, False]


def test_what_takes_several_tokens_waits_for_as_many() -> None:
    budget = TokenBucket(per_second=2, at_once=10)
    assert [budget.admits(0.0, 6.0), budget.admits(0.0, 6.0), budget.admits(1.0, 6.0)] == [True, False, True]


def test_what_is_owed_is_paid_by_time_and_admits_nothing_before() -> None:
    budget = TokenBucket(per_second=2, at_once=10)
    assert budget.owe(0.0, 6.0) == 0.0
    assert budget.owe(0.0, 10.0) == 3.0
    assert budget.owe(1.0, 2.0) == 3.0
    assert not budget.admits(3.9)
    assert budget.admits(4.5)


def test_a_flood_is_one_until_the_bucket_has_had_the_time_to_fill_up_again() -> None:
    budget = TokenBucket(per_second=1, at_once=2)
    times = (0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 60.0, 60.0, 60.0, 60.0)
    begun = [budget.begins_flood for now in times if not budget.admits(now)]
    assert begun == [True, False, False, False, True, False]


def test_it_says_its_bounds_as_people_do() -> None:
    assert TokenBucket(per_second=0.5, at_once=30).describe() == "30 at once and 0.5 a second"


@given(st.lists(st.floats(0, 10), max_size=60), st.floats(0.1, 10), st.integers(1, 10))
def test_no_more_is_admitted_than_was_there_and_has_come(pauses: list[float], per_second: float, at_once: int) -> None:
    budget, now, admitted = TokenBucket(per_second, at_once), 0.0, 0
    for pause in pauses:
        now += pause
        admitted += budget.admits(now)
        assert admitted <= at_once + now * per_second + 1e-6


@each_row("now", [0.0, 1e9])
def test_it_begins_full_whatever_the_clock_says(now: float) -> None:
    budget = TokenBucket(per_second=1, at_once=2)
    assert [budget.admits(now) for _ in range(3)] == [True, True, False]


def test_waits_until_a_token_is_there() -> None:
    budget = TokenBucket(per_second=8, at_once=3)
    for _ in range(3):
        assert budget.wait(100.0) == 0.0
        budget.take()
    assert budget.wait(100.0) == 0.125
    assert budget.wait(100.0625) == 0.0625
    assert budget.wait(100.125) == 0.0
    budget.take()
    assert budget.wait(100.125) == 0.125
    for _ in range(3):  # no more than it holds, however long it was left alone
        assert budget.wait(1000.0) == 0.0
        budget.take()
    assert budget.wait(1000.0) == 0.125
