"""Looking at functions and exceptions that may be anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import AsyncMock, Mock

from paddock_sdk.testing import MockTool
from paddock_sdk.validation.members import count_parameters, described, is_async
from support.rows import each_row


class Called:
    async def __call__(self, event: str, data: Any) -> None: ...

    async def method(self, one: int, *, two: int = 2) -> None: ...

    def plain(self) -> None: ...

    async def generator(self) -> Any:
        yield 1


@each_row(
    ("function", "expected"),
    [
        (Called().method, True),
        (Called().plain, False),
        (Called().generator, False),
        (Called(), False),
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


@each_row(
    ("function", "number"),
    [
        (Called().method, 2),
        (Called(), 2),
        (Called.plain, 0),
        (lambda: None, 0),
        (lambda *args: None, 1),
        (lambda one, **kwargs: None, 2),
        (3, float("inf")),
    ],
)
def test_parameters_are_counted_but_for_self(function: Callable[..., Any], number: float) -> None:
    assert count_parameters(function) == number


def test_an_exception_without_words_is_told_by_its_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    assert [described(error) for error in (OSError(), OSError("no"), Mute())] == ["OSError", "OSError: no", "Mute"]
