"""Looking at members of objects that may be anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from paddock_sdk.testing import MockTool
from paddock_sdk.validation.members import count_parameters, described, is_async, member


class Called:
    async def __call__(self, event: str, data: Any) -> None: ...

    async def method(self, one: int, *, two: int = 2) -> None: ...

    def plain(self) -> None: ...

    async def generator(self) -> Any:
        yield 1


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Called().method, True),
        (Called().plain, False),
        (Called().generator, False),
        (Called(), True),
        (partial(Called().method, 1), True),
        (AsyncMock(), True),
        (MockTool().execute, True),
        (Mock(), False),
        (lambda: Called().method(1), False),
        (print, False),
        (None, False),
    ],
)
def test_what_is_asynchronous_is_told_without_calling_it(function: Any, expected: bool) -> None:
    assert is_async(function) is expected


@pytest.mark.parametrize(
    ("function", "by_position", "also_by_keyword"),
    [
        (Called().method, 1, 2),
        (Called(), 2, 2),
        (lambda: None, 0, 0),
        (lambda *args: None, float("inf"), float("inf")),
        (lambda one, **kwargs: None, 1, float("inf")),
        (lambda one, /, two=2: None, 2, 2),
        (3, float("inf"), float("inf")),
    ],
)
def test_parameters_are_counted(function: Callable[..., Any], by_position: float, also_by_keyword: float) -> None:
    assert (count_parameters(function), count_parameters(function, keywords=True)) == (by_position, also_by_keyword)


def test_a_member_that_raises_is_told_and_not_raised() -> None:
    class Odd:
        there = 1
        broken = property(lambda self: 1 / 0)

    assert (member(Odd(), "there").value, member(Odd(), "there").present) == (1, True)
    assert member(Odd(), "missing").absence == "has no `missing`"
    assert member(Odd(), "broken").absence == "raises ZeroDivisionError: division by zero when its `broken` is read"


def test_an_exception_without_words_is_told_by_its_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert [described(error) for error in (OSError(), OSError("no"), Mute())] == ["OSError", "OSError: no", "Mute"]
