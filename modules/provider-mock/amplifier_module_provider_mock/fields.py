"""Take typed fields out of one mapping of the configuration, with messages a person can act on.

Every refusal is a `ValueError` that names the place (`responses[2].tool_calls[0]`), the field and what was expected.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


def refuse(place: str, problem: str) -> ValueError:
    return ValueError(f"provider-mock: {place}: {problem}")


def text(source: Mapping[str, Any], key: str, place: str, default: str | None = None) -> str | None:
    """Return a string field, or the default when it is absent."""
    value = source.get(key, default)
    if value is None or isinstance(value, str):
        return value
    raise refuse(place, f"`{key}` must be text, not {_kind(value)}")


def name(source: Mapping[str, Any], key: str, place: str, default: str | None = None) -> str:
    """Return a string field that must not be empty."""
    value = text(source, key, place, default)
    if not value:
        raise refuse(place, f"`{key}` is missing; it must be non-empty text")
    return value


def whole(source: Mapping[str, Any], key: str, place: str, default: int, least: int | None = None) -> int:
    """Return a whole number."""
    value = source.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(place, f"`{key}` must be a whole number, not {_kind(value)}")
    if least is not None and value < least:
        raise refuse(place, f"`{key}` must be at least {least}, not {value}")
    return value


def flag(source: Mapping[str, Any], key: str, place: str) -> bool:
    """Return a field that is true or false, false when absent."""
    value = source.get(key, False)
    if not isinstance(value, bool):
        raise refuse(place, f"`{key}` must be true or false, not {_kind(value)}")
    return value


def amount(source: Mapping[str, Any], key: str, place: str, unit: str, default: float | None = None) -> float:
    """Return an amount of some unit, which must be there unless it has a default."""
    value = source.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise refuse(place, f"`{key}` must be a number of {unit}, 0 or more")
    return value


def mapping(value: Any, place: str) -> Mapping[str, Any]:
    """Return the value if it is a mapping with text keys."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise refuse(place, f"expected a mapping of names to values, not {_kind(value)}")


def sequence(value: Any, place: str) -> list[Any]:
    """Return the value as a list; absent counts as empty."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    raise refuse(place, f"expected a list, not {_kind(value)}")


def only(source: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    """Refuse keys that mean nothing here, so that a misspelt one is not silently ignored."""
    unknown = sorted(set(source) - set(known))
    if unknown:
        listed = ", ".join(f"`{key}`" for key in unknown)
        raise refuse(place, f"unknown: {listed}; known are {', '.join(f'`{key}`' for key in known)}")


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
