"""A table of cases as one test: which rows are tried, and how those that are wrong are named."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from support.rows import each_row


def test_every_row_is_tried_and_each_wrong_one_is_named() -> None:
    tried: list[int] = []

    @each_row("given, wanted", [(1, 2), pytest.param(5, 5, id="five"), (7, 7), (9, 0)])
    def doubles(given: int, wanted: int) -> None:
        tried.append(given)
        assert given * 2 == wanted

    with pytest.raises(BaseExceptionGroup, match="3 of 4 rows are wrong") as raised:
        doubles()
    assert tried == [1, 5, 7, 9]
    assert [one.__notes__ for one in raised.value.exceptions] == [["with five"], ["with 7, 7"], ["with 9, 0"]]


async def test_a_coroutine_is_awaited_for_every_row() -> None:
    @each_row("given", [1, 0], ids=["one", "none"])
    async def is_something(given: int) -> None:
        assert given

    with pytest.raises(BaseExceptionGroup) as raised:
        await is_something()
    assert [one.__notes__ for one in raised.value.exceptions] == [["with none"]]


def test_a_table_within_a_table_is_tried_whole() -> None:
    tried: list[str] = []

    @each_row("outer", ["a", "b"])
    @each_row("inner", ["c", "d"])
    def fails(outer: str, inner: str) -> None:
        tried.append(outer + inner)
        if inner == "d":
            pytest.fail("it did not raise")

    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows are wrong"):
        fails()
    assert tried == ["ac", "ad", "bc", "bd"]


def test_an_interruption_ends_the_table() -> None:
    @each_row("given", [1, 2])
    def interrupts(given: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupts()


def test_fixtures_are_what_no_row_gives(tmp_path: Path) -> None:
    @each_row("name", ["a", "b"])
    @each_row("times", [1, 2])
    def writes(tmp_path: Path, name: str, times: int) -> None:
        (tmp_path / (name * times)).touch()

    assert list(inspect.signature(writes).parameters) == ["tmp_path"]
    writes(tmp_path=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "aa", "b", "bb"]


def test_a_row_that_skips_is_wrong() -> None:
    @each_row("why", ["no reason"])
    def skips(why: str) -> None:
        pytest.skip(why)

    with pytest.raises(BaseExceptionGroup):
        skips()
