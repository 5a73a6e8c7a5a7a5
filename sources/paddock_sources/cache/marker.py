"""The file that marks an entry of the cache as complete and describes it.

It is written last. Its modification time is when the entry was last used. Hosts that use the entry hold a lock on the
file, so that no other process removes the entry meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from paddock_sources.cache.tree_digest import Contents

NAME: Final = "ok"
DAMAGED_NAME: Final = "damaged"  # a damaged entry, after a verification
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Marker:
    """The record of entry `digest`: contents, time of making (seconds since the epoch), and further `facts`."""

    digest: str
    contents: Contents
    made_at: float
    facts: Mapping[str, Any]

    def encode(self) -> bytes:
        """Return the content of the file."""
        return json.dumps({"version": _VERSION, **asdict(self)}, sort_keys=True).encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        """Parse a marker; None if it is invalid."""
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
        """Parse an open file as a marker; None if it is invalid."""
        return cls.decode(os.pread(descriptor, _MAX_BYTES, 0))
