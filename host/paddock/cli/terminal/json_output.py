"""JSON on stdout, for any value that a module produced.

Every text in it is masked. A character that is not printed as itself is an escape, so a module's text cannot act on a
terminal. The object is always valid: numbers that JSON lacks become null, bytes base64, sets sorted lists, objects of
unknown types their `repr`. A key becomes text as its value would; of keys that become the same text the last one stays.
No value makes it fail.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7e]+")
_MAX_REPR: Final = 1000  # characters of an object that has no form in JSON
_MAX_DEPTH: Final = 100  # deeper than any value that a module can send; readers of JSON have limits as well
_MAX_INTEGER_BITS: Final = 14_000  # Python refuses to write more than 4300 digits


Mask = Callable[[str], str]


def print_json(value: object, mask: Mask = str) -> None:
    """Write `value` to stdout as one line; `mask` hides secrets in every text of it."""
    sys.stdout.write(printable_json(plain(value, mask)) + "\n")
    sys.stdout.flush()


def printable_json(value: object, *, indent: int | None = None) -> str:
    """Return JSON's own types as JSON, with each character as itself if stdout can show it, else as an escape."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    encoding = sys.stdout.encoding or "ascii"
    # Beyond ASCII, only texts have characters, and there an escape means the same.
    return _BEYOND_ASCII.sub(lambda found: _shown(found[0], encoding), text)


def _shown(text: str, encoding: str) -> str:
    return "".join(
        one if one.isprintable() and one.encode(encoding, "ignore") else json.dumps(one)[1:-1] for one in text
    )


def plain(value: object, mask: Mask = str) -> Any:
    """Return `value` in JSON's own types, its texts masked."""
    return _Plain(mask).of(value, _MAX_DEPTH)


class _Plain:
    def __init__(self, mask: Mask) -> None:
        self._mask = mask

    def of(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.of(value.value, depth - 1) if depth else self._repr(value)
        if isinstance(value, str):
            return self._mask(str.__str__(value))
        if isinstance(value, int):
            return int(value) if value.bit_length() <= _MAX_INTEGER_BITS else hex(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, bytes | bytearray):
            return self._mask(base64.urlsafe_b64encode(value).decode("ascii"))
        if depth == 0:
            return self._repr(value)
        if isinstance(value, list | tuple):
            return [self.of(item, depth - 1) for item in value]
        if isinstance(value, set | frozenset):
            return sorted((self.of(item, depth - 1) for item in value), key=json.dumps)
        try:
            fields = _fields(value)
            if fields is not None:
                return {self._key(key, depth - 1): self.of(item, depth - 1) for key, item in fields.items()}
            known = to_jsonable_python(value, fallback=self._repr)
        except Exception:  # an object may do anything when it is inspected
            return self._repr(value)
        # By now it has only JSON's types, and a bounded depth.
        return self.of(known, depth - 1)

    def _key(self, key: object, depth: int) -> str:
        if isinstance(key, float) and not math.isfinite(key):
            return repr(float(key))  # null would merge several keys
        shown = self.of(key, depth)
        return shown if isinstance(shown, str) else json.dumps(shown)

    def _repr(self, value: object) -> str:
        try:
            return self._mask(repr(value))[:_MAX_REPR]
        except Exception:
            return f"a {type(value).__module__}.{type(value).__qualname__}"


def _fields(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.model_dump(warnings=False) if isinstance(value, BaseModel) else None
