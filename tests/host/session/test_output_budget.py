"""What a module prints counts while it is called, from the oldest call that runs, and is told of once."""

from __future__ import annotations

import pytest

from paddock.session.quota import OutputBudget
from support.rows import each_row

_LIMIT = 10


@each_row(
    ("acts", "told"),
    [
        pytest.param("begin 1, 4, 6", [], id="what is within the limit is not told of"),
        pytest.param("begin 1, 4, 7", [11], id="the first byte beyond it is"),
        pytest.param("begin 1, 20, 20, 20, end 1, begin 2, 20", [20], id="it is told of once"),
        pytest.param("1000, begin 1, 10", [], id="between calls nothing is counted"),
        pytest.param("begin 1, 10, end 1, begin 2, 10, end 2", [], id="a call that runs alone has the whole limit"),
        pytest.param("begin 1, 6, begin 2, 4", [], id="of calls at once, all within the limit"),
        pytest.param("begin 1, 6, begin 2, 4, 1", [11], id="of calls at once, all since the oldest began counts"),
        pytest.param("begin 1, begin 2, 9, end 1, 9", [], id="when the oldest ends, the next one begins anew"),
        pytest.param("begin 1, begin 2, 9, end 1, 9, 2", [11], id="and has no more than the limit"),
        pytest.param("begin 1, begin 2, 9, end 2, 2", [11], id="the end of a younger call takes nothing off"),
    ],
)
def test_output_counts_from_the_oldest_call_and_is_told_of_once(acts: str, told: list[int]) -> None:
    running: dict[str, None] = {}
    found: list[int] = []
    budget = OutputBudget(_LIMIT, lambda: next((int(call) for call in running), None), found.append)
    for act in acts.split(", "):
        match act.split():
            case ["begin", call]:
                running[call] = None
            case ["end", call]:
                del running[call]
            case [size]:
                budget.note(int(size))
    assert found == told
