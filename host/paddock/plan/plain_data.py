"""Copy a plan so that it consists only of tables, lists, text, numbers, truth values and null.

A value that cannot be sent to a module unchanged is a problem with its place, never an exception. The copy shares
nothing with the original, so a file's aliases or an application's own objects cannot change a plan after it was read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from paddock.errors import PlanProblem
from paddock.plan.problems import path_text, type_text

MAX_VALUES = 100_000  # a large plan has a few thousand; a bomb of aliases has billions
MAX_DEPTH = 60  # the wire carries 64 levels, and configuration travels inside a few


class PlainData:
    """Copies values, and collects `problems` on the way."""

    def __init__(self) -> None:
        self.problems: list[PlanProblem] = []
        self._left = MAX_VALUES

    def copy(self, value: object, *path: str | int) -> Any:
        """Return a plain copy of `value`, which stands at `path`; parts with a problem are None in it."""
        self._left -= 1
        if self._left < 0:
            if self._left == -1:
                self._report(path, f"has more than {MAX_VALUES} values")
            return None
        if len(path) > MAX_DEPTH:
            return self._report(path[:4], f"is nested more than {MAX_DEPTH} levels deep")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, int):
            # The range of integers in msgpack and in every other language.
            return int(value) if -(2**63) <= value < 2**64 else self._report(path, "is a number beyond 64 bits")
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else self._report(path, "is not a finite number")
        if isinstance(value, Mapping):
            return self._table(value, path)
        if isinstance(value, (list, tuple)):
            return [self.copy(item, *path, index) for index, item in enumerate(value)]
        hint = "quote it, if it is meant as text"
        return self._report(path, f"is {type_text(value)}, which a plan cannot hold", hint)

    def _table(self, value: Mapping[Any, object], path: tuple[str | int, ...]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                hint = "quote it; YAML reads a bare on, off, yes, no or number as something other than text"
                self._report(path, f"key `{key!r:.40}` is not text", hint)
                continue
            key = self._text(key, path)
            if key is not None:
                table[key] = self.copy(item, *path, key)
        return table

    def _text(self, value: str, path: tuple[str | int, ...]) -> str | None:
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self._report(path, "holds half of a surrogate pair, which is not text")
            return None
        return str(value)

    def _report(self, path: tuple[str | int, ...], message: str, hint: str = "") -> None:
        self.problems.append(PlanProblem(path_text(*path), message, hint))


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with all keys of both: tables are merged; for other values the upper one wins.

    The result is new, and neither argument changes; lists are values and are not joined.
    """
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result
