"""A table of cases as one test: each row is tried, and each that fails is named.

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

_Test = Callable[..., Any]

_FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)  # to skip would be to pass over the other rows
_Param = type(pytest.param())


def each_row(
    names: str | tuple[str, ...], rows: Iterable[Any], *, ids: Iterable[str] | Callable[[Any], object] = reprlib.repr
) -> Callable[[_Test], _Test]:
    """Run a test once for each row, and report every row that fails.

    `names`, `rows` and `ids` are as in `pytest.mark.parametrize`; a row may have an id, and has no marks. The test then
    raises a BaseExceptionGroup of the failures, each with a note that names its row.
    """
    row_names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = [_values(row, len(row_names)) for row in rows]
    assert given, "a test without a row shows nothing"
    labels = [", ".join(f"{ids(value)}" for value in row) for _, row in given] if callable(ids) else list(ids)
    table = [
        (id or label, dict(zip(row_names, row, strict=True))) for label, (id, row) in zip(labels, given, strict=True)
    ]

    def decorate(test: _Test) -> _Test:
        @functools.wraps(test)
        def tries_each(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for label, row in table:
                with _noted(label, failures):
                    test(**fixtures, **row)
            _raise(failures, len(table))

        @functools.wraps(test)
        async def awaits_each(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            for label, row in table:
                with _noted(label, failures):
                    await test(**fixtures, **row)
            _raise(failures, len(table))

        wrapper: Any = awaits_each if inspect.iscoroutinefunction(test) else tries_each
        signature = inspect.signature(test)
        missing = set(row_names) - set(signature.parameters)
        assert not missing, f"{test.__name__} takes no {missing}"
        others = [one for name, one in signature.parameters.items() if name not in row_names]
        wrapper.__signature__ = signature.replace(parameters=others)
        return wrapper  # type: ignore[no-any-return]

    return decorate


def _values(row: Any, count: int) -> tuple[str | None, Sequence[Any]]:
    """Return a row's id, if it has one of its own, and its values."""
    if isinstance(row, _Param):
        assert not row.marks, "a row has no marks"
        return (row.id if isinstance(row.id, str) else None), row.values
    return None, (row,) if count == 1 else row


@contextmanager
def _noted(label: str, failures: list[BaseException]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if not _is_failure(error):
            raise
        error.add_note(f"with {label}")
        failures.append(error)


def _is_failure(error: BaseException) -> bool:
    """Return whether a test failed by it, or whether every part of a group is such, as of another table within."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(_FAILURES)[1] is None
    return isinstance(error, _FAILURES)


def _raise(failures: list[BaseException], count: int) -> None:
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} of {count} rows are wrong", failures)
