"""JSON on stdout, whatever a module put into a value.

Plain ASCII, so that a module's text cannot act on a terminal, and always valid: numbers that JSON lacks become null,
bytes base64, objects of no known form their `repr`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_jsonable_python

_MAX_REPR: Final = 1000  # characters of an object that has no form in JSON


def print_json(value: object) -> None:
    """Write `value` to stdout as one line."""
    sys.stdout.write(json.dumps(plain(value)) + "\n")
    sys.stdout.flush()


def plain(value: object) -> Any:
    """Return `value` in JSON's own types."""
    return _finite(to_jsonable_python(value, bytes_mode="base64", fallback=lambda item: repr(item)[:_MAX_REPR]))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
