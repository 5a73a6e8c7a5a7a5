"""JSON on stdout, whatever a module put into a value.

Plain ASCII, so that a module's text cannot act on a terminal, and always valid: numbers that JSON lacks become null,
bytes base64, sets sorted lists, objects of no known form their `repr`. A key becomes text as its value would; of keys
that come to the same text the last one stays. No value makes it fail.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

_MAX_REPR: Final = 1000  # characters of an object that has no form in JSON
_MAX_DEPTH: Final = 100  # deeper than anything that crosses from a module; readers of JSON have limits as well
_MAX_INTEGER_BITS: Final = 14_000  # Python refuses to write more than 4300 digits


def print_json(value: object) -> None:
    """Write `value` to stdout as one line."""
    sys.stdout.write(json.dumps(plain(value)) + "\n")
    sys.stdout.flush()


def plain(value: object) -> Any:
    """Return `value` in JSON's own types."""
    return _plain(value, _MAX_DEPTH)


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, depth - 1) if depth else _repr(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_INTEGER_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray):
        return base64.urlsafe_b64encode(value).decode("ascii")
    if depth == 0:
        return _repr(value)
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, depth - 1) for item in value), key=json.dumps)
    try:
        fields = _fields(value)
        if fields is not None:
            return {_key(key, depth - 1): _plain(item, depth - 1) for key, item in fields.items()}
        return to_jsonable_python(value, fallback=_repr)
    except Exception:  # what an object does when it is looked at is anybody's guess
        return _repr(value)


def _fields(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.model_dump(warnings=False) if isinstance(value, BaseModel) else None


def _key(key: object, depth: int) -> str:
    if isinstance(key, float) and not math.isfinite(key):
        return repr(float(key))  # null would make one of several
    shown = _plain(key, depth)
    return shown if isinstance(shown, str) else json.dumps(shown)


def _repr(value: object) -> str:
    try:
        return repr(value)[:_MAX_REPR]
    except Exception:
        return f"a {type(value).__module__}.{type(value).__qualname__}"
