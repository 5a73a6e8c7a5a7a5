"""Put one table over another: what both have as tables is put together, of anything else the upper one counts.

Returns new tables, and changes neither; lists are values, not something to be joined.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table that has all keys of both."""
    result = dict(base)
    for key, value in over.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return result
