"""A table of cases as one test: each row is tried, and each that is wrong is named.

It is for tests without processes, and without fixtures that a row could change for the next one. A test of its own for
each row takes pytest milliseconds, in every process that collects it.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

Test = Callable[..., Any]

_WRONG = (Exception, pytest.fail.Exception, pytest.skip.Exception)  # to skip would be to pass over the other rows
_Param = type(pytest.param())


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Iterable[str] | Callable[[Any], object] = reprlib.repr
) -> Callable[[Test], Test]:
    """Have a test take each row in turn; the parameters are those of `pytest.mark.parametrize`.

    Raises:
        BaseExceptionGroup: the failures, each with a note that shows its row.
    """
    taken = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    values = [_values(row, len(taken)) for row in rows]
    assert values, "a test without a row shows nothing"
    labels = [", ".join(f"{ids(value)}" for value in row) for row in values] if callable(ids) else list(ids)
    table = [(label, dict(zip(taken, row, strict=True))) for label, row in zip(labels, values, strict=True)]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def tries_each(**fixtures: Any) -> None:
            wrong: list[BaseException] = []
            for label, row in table:
                with _noted(label, wrong):
                    test(**fixtures, **row)
            _raise(wrong, len(table))

        @functools.wraps(test)
        async def awaits_each(**fixtures: Any) -> None:
            wrong: list[BaseException] = []
            for label, row in table:
                with _noted(label, wrong):
                    await test(**fixtures, **row)
            _raise(wrong, len(table))

        made: Any = awaits_each if inspect.iscoroutinefunction(test) else tries_each
        signature = inspect.signature(test)
        missing = set(taken) - set(signature.parameters)
        assert not missing, f"{test.__name__} takes no {missing}"
        others = [one for name, one in signature.parameters.items() if name not in taken]
        made.__signature__ = signature.replace(parameters=others)
        return made  # type: ignore[no-any-return]

    return decorate


def _values(row: Any, count: int) -> Sequence[Any]:
    if isinstance(row, _Param):
        assert not row.marks, "a row has no marks"
        return row.values
    return (row,) if count == 1 else row


@contextmanager
def _noted(label: str, wrong: list[BaseException]) -> Iterator[None]:
    try:
        yield
    except _WRONG as failure:
        failure.add_note(f"with {label}")
        wrong.append(failure)


def _raise(wrong: list[BaseException], count: int) -> None:
    if wrong:
        raise BaseExceptionGroup(f"{len(wrong)} of {count} rows are wrong", wrong)
