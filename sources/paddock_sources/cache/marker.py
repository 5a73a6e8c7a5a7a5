"""The file that says that an entry of the cache is complete, and what it is.

It is written last. Its time of modification is when the entry was last used; hosts that use it have it locked, so that
nobody takes the entry away meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from paddock_sources.cache.tree_digest import Contents

NAME: Final = "ok"
DAMAGED_NAME: Final = "damaged"  # what verifying makes of it
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Marker:
    """Of the entry `digest`: what its files are, when it was made (seconds since the epoch), and further `facts`."""

    digest: str
    contents: Contents
    made_at: float
    facts: Mapping[str, Any]

    def encode(self) -> bytes:
        """Return the content of the file."""
        written = {"version": _VERSION, **asdict(self)}
        return json.dumps(written, sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        """Return what a file says; None if it is no marker."""
        try:
            written = json.loads(content)
            if written["version"] != _VERSION or not isinstance(written["facts"], dict):
                return None
            contents = Contents(**written["contents"])
            if not isinstance(contents.digest, str) or not isinstance(contents.bytes, int):
                return None
            return cls(str(written["digest"]), contents, float(written["made_at"]), written["facts"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    @classmethod
    def read(cls, descriptor: int) -> Self | None:
        """Return what an open file says; None if it is no marker."""
        return cls.decode(os.pread(descriptor, _MAX_BYTES, 0))
