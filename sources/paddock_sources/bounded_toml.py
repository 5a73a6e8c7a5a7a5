"""Read TOML that a stranger wrote, in time that its size bounds.

The standard parser takes time by the depth of each key: a file of a hundred kilobytes can keep it busy for minutes.
"""

from __future__ import annotations

import tomllib
from typing import Any

_MAX_DOTS = 64  # in what may be a key; names are not nested as deep by people


def read_toml(text: str) -> dict[str, Any]:
    """Return what a text of TOML says.

    Raises:
        tomllib.TOMLDecodeError: it is none, or a key in it is nested beyond all reason.
        RecursionError, ValueError: a value in it is too deep, or cannot be.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > _MAX_DOTS and line.partition("=")[0].count(".") > _MAX_DOTS:
            raise tomllib.TOMLDecodeError(f"a key is nested too deeply (at line {number}, column 1)")
    return tomllib.loads(text)
