"""Remember for a day which versions were chosen, so that what is not locked is not chosen anew at each start.

A choice is kept in the user's cache under the digest of all that decides about it: what was asked for, the index
without credentials, the Python and the platform. It has the hashes that files are installed by. People may edit it, so
it is read as strictly as a lock; what has another form counts as absent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from paddock_sources.cache import Bucket, CacheError, SourceCache
from paddock_sources.environment.index import Index
from paddock_sources.environment.interpreter import Interpreter
from paddock_sources.environment.locked import LockedDistribution
from paddock_sources.environment.uv import ResolutionRequest
from paddock_sources.errors import SourceError

_SECONDS: Final = 86_400.0
_FILE: Final = "chosen.json"  # a list of [name, version, [hash…]]
_MAX_BYTES: Final = 8 << 20


class RememberedChoice:
    """The versions that were chosen for one request; a `cache` that recalls nothing takes note of them all the same."""

    def __init__(
        self,
        cache: SourceCache,
        request: ResolutionRequest,
        index: Index,
        python: Interpreter,
    ) -> None:
        inputs = (asdict(request), index.shown, python.tag, python.platform, dict(python.markers))
        self._digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        self._store = cache.store(Bucket.RESOLUTIONS)
        self._recalls = cache.recalls

    def read(self, *, of_any_age: bool = False) -> tuple[LockedDistribution, ...] | None:
        """Return the choice of the last day; None where there is none."""
        marker = self._store.marker(self._digest) if self._recalls else None
        if marker is None or not (of_any_age or 0 <= self._store.store_context.clock() - marker.made_at < _SECONDS):
            return None
        try:
            with open(self._store.place(self._digest) / _FILE, "rb") as file:
                written = json.loads(file.read(_MAX_BYTES))
            if not isinstance(written, list):
                return None
            found = tuple(LockedDistribution(name, version, tuple(hashes)) for name, version, hashes in written)
        except (OSError, ValueError, TypeError, RecursionError, SourceError):
            return None
        return found if len({one.name for one in found}) == len(found) else None

    def write(self, chosen: Sequence[LockedDistribution]) -> None:
        """Keep a choice in place of an earlier one; where nothing can be kept, it is made again the next time."""
        text = json.dumps([[one.name, one.version, one.hashes] for one in chosen])

        def build(folder: Path) -> None:
            (folder / _FILE).write_text(text, encoding="utf-8")

        with suppress(CacheError):
            self._store.remove(self._digest)
            self._store.add(self._digest, build, {"distributions": [f"{one.name}=={one.version}" for one in chosen]})
