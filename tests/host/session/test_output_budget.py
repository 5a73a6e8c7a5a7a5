"""What a module prints counts while it is called, from the oldest call that runs, and is told of once."""

from __future__ import annotations

from paddock.session.quota import OutputBudget


class Calls:
    """Calls that run, and what was told of them."""

    def __init__(self, limit: int) -> None:
        self.running: dict[int, object] = {}
        self.told: list[int] = []
        self.budget = OutputBudget(limit, lambda: next(iter(self.running), None), self.told.append)


def test_what_is_printed_within_the_limit_is_not_told_of() -> None:
    calls = Calls(10)
    calls.running[1] = "a call"
    calls.budget.note(4)
    calls.budget.note(6)
    assert calls.told == []


def test_the_first_byte_beyond_output_max_is_reported() -> None:
    calls = Calls(10)
    calls.running[1] = "a call"
    calls.budget.note(4)
    calls.budget.note(7)
    assert calls.told == [11]


def test_it_is_told_of_once() -> None:
    calls = Calls(10)
    calls.running[1] = "a call"
    for _ in range(5):
        calls.budget.note(20)
    del calls.running[1]
    calls.running[2] = "another"
    calls.budget.note(20)
    assert calls.told == [20]


def test_between_calls_nothing_is_counted() -> None:
    calls = Calls(10)
    calls.budget.note(1000)
    calls.running[1] = "a call"
    calls.budget.note(10)
    assert calls.told == []


def test_each_call_that_runs_alone_has_the_whole_limit() -> None:
    calls = Calls(10)
    for number in range(5):
        calls.running[number] = "a call"
        calls.budget.note(10)
        del calls.running[number]
    assert calls.told == []


def test_of_calls_that_run_at_once_what_came_since_the_oldest_counts() -> None:
    calls = Calls(10)
    calls.running[1] = "the oldest"
    calls.budget.note(6)
    calls.running[2] = "one beside it"
    calls.budget.note(4)
    assert calls.told == []
    calls.budget.note(1)
    assert calls.told == [11]


def test_when_the_oldest_ends_the_next_one_begins_anew() -> None:
    calls = Calls(10)
    calls.running[1] = "the oldest"
    calls.running[2] = "one beside it"
    calls.budget.note(9)
    del calls.running[1]
    calls.budget.note(9)
    assert calls.told == []
    calls.budget.note(2)
    assert calls.told == [11]


def test_the_end_of_a_younger_call_takes_nothing_off() -> None:
    calls = Calls(10)
    calls.running[1] = "the oldest"
    calls.running[2] = "one beside it"
    calls.budget.note(9)
    del calls.running[2]
    calls.budget.note(2)
    assert calls.told == [11]
