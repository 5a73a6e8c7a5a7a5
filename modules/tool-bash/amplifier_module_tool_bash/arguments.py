"""Check a model's arguments for a tool against the tool's own schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .failure import Failure

_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


def checked(schema: Mapping[str, Any], given: object) -> dict[str, Any]:
    """Return the arguments that the schema knows, defaults filled in; unknown ones are left out.

    Raises:
        Failure: one is missing, of the wrong kind, or out of bounds.
    """
    if not isinstance(given, Mapping):
        raise Failure("invalid_input", "The input must be an object with named arguments.")
    return {name: _value(name, about, given.get(name), schema) for name, about in schema["properties"].items()}


def _value(name: str, about: Mapping[str, Any], value: Any, schema: Mapping[str, Any]) -> Any:
    if value is None:
        if name in schema["required"]:
            raise Failure("invalid_input", f"`{name}` is missing.")
        return about.get("default")
    if not isinstance(value, _TYPES[about["type"]]) or (about["type"] == "integer" and isinstance(value, bool)):
        raise Failure("invalid_input", f"`{name}` must be of type {about['type']}, not {type(value).__name__}.")
    if about["type"] == "integer" and not about["minimum"] <= value <= about["maximum"]:
        raise Failure("invalid_input", f"`{name}` must be from {about['minimum']} to {about['maximum']}, not {value}.")
    if about["type"] == "string" and (not value.strip() or "\0" in value):
        raise Failure("invalid_input", f"`{name}` must be text, and not empty.")
    return value
