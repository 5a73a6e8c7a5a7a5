"""The input of a tool, checked against its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .failure import Failure

_TYPES: dict[str, type] = {"string": str, "integer": int}


def checked(schema: dict[str, Any], given: Any) -> dict[str, Any]:
    """Return the arguments the schema knows, defaults filled in; unknown ones are left out.

    Raises:
        Failure: one is missing or of the wrong kind.
    """
    if not isinstance(given, Mapping):
        raise Failure("invalid_input", "The input must be an object with named arguments.")
    arguments: dict[str, Any] = {}
    for name, about in schema["properties"].items():
        value = given.get(name)
        if value is None:
            if name in schema["required"]:
                raise Failure("invalid_input", f"`{name}` is missing.")
            value = about.get("default")
        elif not isinstance(value, _TYPES[about["type"]]) or isinstance(value, bool):
            raise Failure("invalid_input", f"`{name}` must be of type {about['type']}, not {type(value).__name__}.")
        elif about["type"] == "integer" and not about["minimum"] <= value <= about.get("maximum", value):
            most = f" and at most {about['maximum']}" if "maximum" in about else ""
            raise Failure("invalid_input", f"`{name}` must be at least {about['minimum']}{most}, not {value}.")
        elif isinstance(value, str) and not value.strip():
            raise Failure("invalid_input", f"`{name}` must not be empty.")
        arguments[name] = value
    return arguments
