"""Why a value cannot leave this process, said so that the author of a module finds it: where, what, what instead.

Functions and ordinary objects cross as live ones; what is tied to this process (files, locks, tasks, iterators) does
not, and nor does an object where only data may stand. Looked for only when something has failed.
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
    """Return what a value is that no other process can have a stand-in for, None for any other."""
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
    """Return the error that names what in `value` cannot cross; the given one if it is too much rather than wrong.

    `encode` raises for what fails; `root` is what the value is in the module's eyes, empty for a call's arguments.
    """
    steps, culprit = _culprit(value, encode)
    if not isinstance(_failure(culprit, encode), NoFormError):
        return error
    kind = live_kind(culprit) or unsendable(culprit)
    if kind is None:
        cls = type(culprit)
        kind = LiveKind(
            f"an object of class {cls.__qualname__}", "hand over plain data, or one of the contract's models"
        )
    return CannotCrossError(_path(root, steps), kind.name, kind.hint)


def _culprit(value: object, encode: Encode) -> tuple[list[str], object]:
    steps: list[str] = []
    for _ in range(_MAX_STEPS):
        failing = next(((step, item) for step, item in _contents(value) if _failure(item, encode)), None)
        if failing is None:
            break
        steps.append(failing[0])
        value = failing[1]
    return steps, value


def _contents(value: Any) -> Iterator[tuple[str, object]]:
    """Return what a value is made of, each with the way to it."""
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
