"""Inspect a live object and write down what another process may know about it.

Only public names are inspected, each property is read once, and unreadable ones are left out: a description never fails
because a module's property does. Data under a name that usually holds a secret is not sent, nor are other objects that
the object holds: they are reached through its methods, or not at all.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import inspect
import re
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import PurePath
from types import AsyncGeneratorType
from typing import Any, Final
from uuid import UUID

from paddock_sdk.protocol.body import Record
from paddock_sdk.protocol.description import (
    MAX_MEMBERS,
    SPECIAL_MEMBERS,
    Description,
    Flavour,
    Member,
    is_identifier,
    is_public,
)
from paddock_sdk.protocol.frames import MAX_DESCRIPTION_BYTES, MAX_DESCRIPTION_VALUES

_SECRET: Final = re.compile("api_?key|secret|password|token|credential|private_key|authorization")
_NOT_SECRET: Final = ("max_tokens", "max_output_tokens", "token_count", "token_budget", "tokens")
_MAX_DATA_DEPTH: Final = 32  # as deep as the JSON schema of an MCP server's tool may be
_PLAIN: Final = frozenset({type(None), bool, int, float, str})
_TABLES: Final = (dict, Record)
_SCALARS: Final = (PurePath, Decimal, dt.date, dt.time, dt.timedelta, UUID)  # that are no JSON, and cross as they are
_GENERATOR: Final = Description(
    "async_generator", (Member("__anext__", Flavour.STREAM), Member("aclose", Flavour.ASYNC)), {}
)
_MISSING: Final = object()


def flavour_of(function: object) -> Flavour:
    """Return how `function` has to be called."""
    with contextlib.suppress(Exception):  # wrappers that wrap each other, or an object that pretends to be one
        function = inspect.unwrap(function)  # type: ignore[arg-type]
    call = function
    if not inspect.isroutine(function) and not isinstance(function, functools.partial):
        call = getattr(function, "__call__", function)  # noqa: B004 - the bound method, not whether there is one
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return Flavour.ASYNC
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        return Flavour.STREAM
    return Flavour.SYNC


def is_function(value: object) -> bool:
    """Whether `value` is a function or method rather than an object with members of its own."""
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def describe(value: object) -> Description:
    """Return the description of a function or object."""
    if is_function(value):
        name = getattr(value, "__name__", type(value).__name__)
        return Description(
            name if is_identifier(name) else "function", (Member("__call__", flavour_of(value)),), {}, is_function=True
        )
    if isinstance(value, AsyncGeneratorType):
        return _GENERATOR
    of_class = _class_contents(type(value))
    members: list[Member] = []
    data = _Data(value, of_class, members)
    # What Python calls for `async with` and `async for`; only a class can have it.
    there = {name for name in SPECIAL_MEMBERS - {"__call__"} if callable(of_class.get(name))}
    members += [Member(name, Flavour.ASYNC) for name in ("__aenter__", "__aexit__") if name in there]
    if "__anext__" in there:
        members.append(Member("__anext__", Flavour.STREAM))
    elif "__aiter__" in there:
        members.append(Member("__aiter__", Flavour.STREAM))
    name = type(value).__name__
    return Description(
        name if is_identifier(name) else "Object",
        tuple(members[:MAX_MEMBERS]),
        data.attributes,
        class_attributes=data.of_class,
        properties=frozenset(data.properties),
    )


def described_anew(value: object, before: Description) -> Description:
    """Return the description of an object with the data it has now; its members stay the same."""
    if is_function(value) or isinstance(value, AsyncGeneratorType):
        return before
    data = _Data(value, _class_contents(type(value)))
    return replace(
        before, attributes=data.attributes, class_attributes=data.of_class, properties=frozenset(data.properties)
    )


class _Data:
    """The contents of an object other than its members, which are added to `members` if that is given."""

    def __init__(self, value: object, of_class: dict[str, Any], members: list[Member] | None = None) -> None:
        self.attributes: dict[str, Any] = {}
        self.of_class: dict[str, Any] = {}
        self.properties: set[str] = set()
        names = dict.fromkeys(name for name in (*of_class, *getattr(value, "__dict__", ())) if is_public(name))
        if callable(value):
            names["__call__"] = None
        for name in names:
            if members is not None and len(members) == MAX_MEMBERS:
                break
            try:
                item = getattr(value, name)
                there = of_class.get(name, _MISSING)
                if name != "__call__" and (not callable(item) or inspect.isclass(item)):
                    self._take(name, item, there)
                elif members is not None:
                    members.append(Member(name, flavour_of(item), isinstance(there, classmethod | staticmethod)))
            except Exception:  # noqa: S112 - a module's property failed; it is absent, as hasattr would say
                continue

    def _take(self, name: str, item: object, there: object) -> None:
        """Take the value of a name, unless it is no data or must not be sent; `there` is its class's value."""
        if _is_secret(name) or not _may_fit(item) or not _is_data(item):
            return
        self.attributes[name] = masked(item)
        if isinstance(there, property | functools.cached_property):
            self.properties.add(name)
        elif there is not _MISSING and _is_data(there):
            self.of_class[name] = self.attributes[name] if there is item else masked(there)


def member_of(value: Any, name: str) -> Any:
    """Return the function that a call of a described member is a call of."""
    if name == "__anext__":
        return lambda: value  # the stream is the object it iterates
    if name == "__aexit__":
        # An exception brings its class and trace with it; neither can cross by itself.
        return lambda error: value.__aexit__(
            type(error) if error else None, error, getattr(error, "__traceback__", None)
        )
    return getattr(value, name)


def _class_contents(cls: type) -> dict[str, Any]:
    """Return the contents of a class and its bases without calling anything."""
    contents: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        contents.update(vars(base))
    return contents


def _is_secret(name: str) -> bool:
    lowered = name.lower()
    return _SECRET.search(lowered) is not None and lowered not in _NOT_SECRET


def _may_fit(value: Any) -> bool:
    """Whether a value may be small enough for a description; inspects no more of it than would fit."""
    values, size, left = 1, 0, [value]
    while left:
        item = left.pop()
        kind = type(item)
        if kind is str or kind is bytes:
            size += len(item)
            if size > MAX_DESCRIPTION_BYTES:
                return False
        elif kind in (list, tuple, set, frozenset, *_TABLES):
            values += len(item)
            if values > MAX_DESCRIPTION_VALUES:
                return False
            left.extend(item.values() if kind in _TABLES else item)
    return True


def _is_data(value: Any, depth: int = 0) -> bool:
    """Whether a value crosses as itself and holds no live objects."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if depth >= _MAX_DATA_DEPTH:
        return False
    if kind in (list, tuple, set, frozenset):
        return _are_data(value, depth)
    if kind in _TABLES:
        return {str}.issuperset(map(type, value)) and _are_data(value.values(), depth)
    return kind is bytes or isinstance(value, _SCALARS)


def _are_data(values: Iterable[object], depth: int) -> bool:
    for item in values:  # a loop, as this goes over whole conversations
        if not (type(item) in _PLAIN or _is_data(item, depth + 1)):
            return False
    return True


def masked(value: Any) -> Any:
    """Return data for a description, without values under a name that usually holds a secret."""
    if type(value) in _TABLES:
        shown = {
            key: "[REDACTED]" if isinstance(item, str) and _is_secret(key) else masked(item)
            for key, item in value.items()
        }
        return type(value)(shown)
    if type(value) in (list, tuple):
        return type(value)([masked(item) for item in value])
    return value
