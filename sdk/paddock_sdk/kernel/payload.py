"""An event's data as handlers see it: JSON types only, keys sorted, never shared.

A `Payload` is a value: nothing changes it once it is made, and its readers get copies to keep. Conversion follows JSON,
with `str` for values that JSON cannot express. Values that even `str` cannot express safely (NaN, infinity, numbers and
nestings without a bound) raise RuntimeError. Values that only have a meaning in their own process (functions, open
files, locks) raise CannotCrossError. This file knows neither events nor handlers.
"""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any, Final

from paddock_sdk.contract.boundary_errors import CannotCrossError
from paddock_sdk.kernel.live_values import FunctionName, LiveKind, live_kind

# Where common JSON readers stop, too; it also bounds the recursion below on data that holds itself.
_MAX_DEPTH: Final = 128

# The joint range of signed and unsigned 64-bit integers; a wider number becomes a float.
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1

_AS_THEY_ARE: Final = frozenset({str, bool, type(None)})
_CONTAINERS: Final = frozenset({dict, list})


class _LiveValueError(Exception):
    """Raised from the depth of a conversion; the code that catches it looks up the value's path."""

    def __init__(self, value: object, kind: LiveKind) -> None:
        super().__init__(kind.name)
        self.value = value
        self.kind = kind


class Payload:
    """One event's converted data."""

    __slots__ = ("_data", "cache")

    def __init__(self, data: Any, /) -> None:
        self._data = data
        #: Where a transport may keep its encoding of this payload, so that twenty receivers cost one encoding.
        self.cache: dict[str, object] = {}

    @classmethod
    def of(cls, data: object) -> Payload:
        """Convert any data.

        Raises:
            RuntimeError: the data has no JSON form.
            CannotCrossError: there is a value in it that only means something in this process.
            TypeError: a key is neither text, number, boolean nor None.
        """
        if type(data) is not dict and hasattr(data, "model_dump"):
            data = _dumped(data)
        try:
            return cls(_converted(data, 0))
        except _LiveValueError as live:
            path = "data" + "".join(_path_to(live.value, data) or ())
            raise CannotCrossError(path, live.kind.name, live.kind.hint) from None

    @property
    def is_mapping(self) -> bool:
        return type(self._data) is dict

    @property
    def shared(self) -> Any:
        """The data itself, for reading only: an encoder needs no copy."""
        return self._data

    def data(self) -> Any:
        """Return a copy that shares nothing mutable with the payload."""
        return _copied(self._data)

    def stamped(self, defaults: dict[str, Any], timestamp: str) -> Payload:
        """Return the payload laid over default fields, with a timestamp; data that is no mapping stays as it is.

        The defaults have to be JSON types.
        """
        if not self.is_mapping:
            return self
        return Payload(_by_key({**defaults, **self._data, "timestamp": timestamp}))

    def with_field(self, name: str, value: str) -> Payload:
        """Return a mapping payload with one field set."""
        return Payload(_by_key({**self._data, name: value}))


def _dumped(model: Any) -> Any:
    """Return a model's own dump, or the model if it has none: it is then text, as any object is."""
    with contextlib.suppress(Exception):  # a class we do not know
        return model.model_dump(mode="json")
    with contextlib.suppress(Exception):  # one that is not pydantic's may take no mode
        return model.model_dump()
    return model


def _by_key(mapping: dict[str, Any]) -> dict[str, Any]:
    keys = sorted(mapping)
    return mapping if keys == list(mapping) else {key: mapping[key] for key in keys}


def _copied(value: Any) -> Any:
    # Strings are shared, not copied: a large tool result costs its structure, not its size.
    kind = type(value)
    if kind is dict:
        return {key: _copied(item) if type(item) in _CONTAINERS else item for key, item in value.items()}
    if kind is list:
        return [_copied(item) if type(item) in _CONTAINERS else item for item in value]
    return value


def _converted(value: Any, depth: int) -> Any:
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, (dict, list, tuple)):
        return _converted_container(value, depth + 1)
    # Subclasses (enums among them) lose their class but keep the value JSON would write, regardless of their own
    # conversions: hence the base class's methods.
    if isinstance(value, str) and not isinstance(value, FunctionName):
        return str.__str__(value)
    if isinstance(value, int):
        return _bounded(int.__int__(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RuntimeError(f"Invalid JSON: event data holds {float(value)}, which JSON cannot express")
        return float.__float__(value)
    kind = live_kind(value)
    if kind is not None:
        raise _LiveValueError(value, kind)
    return str.__str__(str(value))


def _converted_container(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise RuntimeError(f"Invalid JSON: event data is nested more than {_MAX_DEPTH} deep, or holds itself")
    if isinstance(value, dict):
        return _by_key(
            {
                key if type(key) is str else _key(key): item
                if (kind := type(item)) in _AS_THEY_ARE or (kind is int and _INT_MIN <= item <= _INT_MAX)
                else _converted(item, depth)
                for key, item in value.items()
            }
        )
    return [item if type(item) in _AS_THEY_ARE else _converted(item, depth) for item in value]


def _bounded(number: int) -> int | float:
    if _INT_MIN <= number <= _INT_MAX:
        return number
    try:
        return float(number)
    except OverflowError:
        raise RuntimeError("Invalid JSON: event data holds a number too large for JSON's readers") from None


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, (int, float)):
        return json.dumps(key)
    raise TypeError(f"event data has a key of type {type(key).__name__}; keys are text, numbers, booleans or None")


def _path_to(sought: object, within: object) -> tuple[str, ...] | None:
    """Return the subscripts that lead to a value, None where they do not; searched in the order of the conversion."""
    if within is sought:
        return ()
    if isinstance(within, dict):
        steps = [(f'["{key}"]' if isinstance(key, str) else f"[{key!r}]", item) for key, item in within.items()]
    elif isinstance(within, (list, tuple)):
        steps = [(f"[{index}]", item) for index, item in enumerate(within)]
    else:
        return None
    for step, item in steps:
        rest = _path_to(sought, item)
        if rest is not None:
            return (step, *rest)
    return None
