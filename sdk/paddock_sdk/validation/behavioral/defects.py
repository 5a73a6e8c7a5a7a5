"""Distinguish a refusal from a defect, as the contract does: by the exception's class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

__all__ = ["only_refusals"]


@contextmanager
def only_refusals(doing: str, *defects: type[Exception]) -> Iterator[None]:
    """Fail the test for exceptions of these classes; any other is a refusal, and passes."""
    with suppress(Exception):
        try:
            yield
        except defects as error:
            pytest.fail(f"{doing} raised {type(error).__name__}: {error}")
