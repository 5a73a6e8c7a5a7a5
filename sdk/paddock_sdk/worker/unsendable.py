"""Explain to a module's author why a value cannot leave this process: where it is, what it is, and an alternative.

Functions and ordinary objects cross as live ones. Values tied to this process (files, locks, tasks, iterators) do not.
Nor does an object where only data is allowed. The search runs only after a failure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from types import AsyncGeneratorType
from typing import Any, Final

from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.kernel.live_values import LiveKind, live_kind
from paddock_sdk.protocol.body import EncodeError, NoFormError
from paddock_sdk.protocol.describing import is_function

_ITERATOR: Final = LiveKind("an iterator", "hand over a list of what it yields")
_FILE: Final = LiveKind("an open file", "hand over its path, or what it holds")
_INSTEAD: Final = "hand over plain data, or one of the contract's models"
_MAX_STEPS: Final = 64  # levels; a body has no more

_barred: dict[type, LiveKind | None] = {}


def unsendable(value: object) -> LiveKind | None:
    """Return the kind of a value that cannot have a stand-in in another process, None for any other value."""
    kind = type(value)
    try:
        return _barred[kind]
    except KeyError:
        known = _barred[kind] = _unsendable_kind(value)
        return known


def _unsendable_kind(value: object) -> LiveKind | None:
    if is_function(value) or isinstance(value, AsyncGeneratorType):
        return None
    known = live_kind(value)
    if known is not None:
        return known
    if type(value).__module__ == "tempfile":  # a wrapper that is no file itself
        return _FILE
    return _ITERATOR if hasattr(type(value), "__next__") else None


Encode = Callable[[object], object]


def explained(error: EncodeError, value: object, root: str, encode: Encode) -> CannotCrossError | EncodeError:
    """Return an error that names the part of `value` that cannot cross; the given one if `value` is too large.

    `encode` raises for a part that fails; `root` is the value's name for the module, empty for a call's arguments.
    """
    steps: list[str] = []
    culprit = value
    for _ in range(_MAX_STEPS):
        failing = next(((step, item) for step, item in _contents(culprit) if _failure(item, encode)), None)
        if failing is None:
            break
        steps.append(failing[0])
        culprit = failing[1]
    if not isinstance(_failure(culprit, encode), NoFormError):
        return error
    kind = live_kind(culprit) or unsendable(culprit)
    if kind is None:
        kind = LiveKind(f"an object of class {type(culprit).__qualname__}", _INSTEAD)
    return CannotCrossError(_path(root, steps), kind.name, kind.hint)


def _contents(value: Any) -> Iterator[tuple[str, object]]:
    """Return the parts of a value, each with the path to it."""
    if isinstance(value, dict):
        yield from ((f'["{key}"]' if isinstance(key, str) else f"[{key!r:.80}]", item) for key, item in value.items())
        yield from ((".keys()", key) for key in value)
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{…}", item) for item in value)
    elif dataclasses.is_dataclass(value) or hasattr(type(value), "__pydantic_fields__"):
        yield from ((f".{name}", item) for name, item in vars(value).items())


def _failure(value: object, encode: Encode) -> EncodeError | None:
    try:
        encode(value)
    except EncodeError as exc:
        return exc
    return None


def _path(root: str, steps: list[str]) -> str:
    if root:
        return root + "".join(steps)
    return "arguments" + "".join(steps[1:])  # positional or named, which the next step shows
