"""Read a message's blocks and tool calls whether they are mappings or the contract's own objects.

Orchestrators store a reply's content as they got it; both forms are kept, and both have to be recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_mapping(value: Any) -> Mapping[str, Any] | None:
    """Return a block or a call as a mapping, None for anything that is neither."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None) or getattr(value, "to_dict", None)
    dumped = dump() if callable(dump) and not isinstance(value, type) else None
    return dumped if isinstance(dumped, Mapping) else None


def mappings_in(values: Any) -> list[Mapping[str, Any]]:
    """Return the blocks or calls in a list as mappings, without what is neither; nothing for what is no list."""
    listed = values if isinstance(values, list | tuple) else ()
    return [mapping for mapping in map(as_mapping, listed) if mapping is not None]
