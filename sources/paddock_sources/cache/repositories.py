"""Records of each remote repository: a bare one to fetch into, and which trees its commits were.

A process uses a repository only while it holds its lock. The records of commits never change. Each is a file of its
own, so reading them needs no lock.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from paddock_sources.cache.cache_folder import Bucket
from paddock_sources.cache.entry_store import StoreContext
from paddock_sources.cache.errors import adding_to
from paddock_sources.errors import without_credentials
from paddock_sources.progress import Progress

URL_NAME: Final = "url"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_RECORD_BYTES: Final = 64 * 1024
_TOUCH_SECONDS: Final = 3600.0


class Repositories:
    """The repositories of one cache, by their addresses, which have no credentials in them."""

    def __init__(self, store_context: StoreContext) -> None:
        self._store_context = store_context
        self.folder = store_context.folder.path / Bucket.GIT.value
        self.commits_folder = store_context.folder.path / Bucket.COMMITS.value

    @contextmanager
    def locked(self, url: str, deadline: float, *, progress: Progress | None = None) -> Iterator[Path]:
        """Yield the folder for a repository, created if needed and used exclusively until this is left.

        Raises:
            CacheError: another host held the lock for longer than `deadline` seconds.
            CacheError: nothing can be kept.
        """
        name = _digest(url)
        shown = without_credentials(url)
        with self._store_context.folder.locked(lock_name(name), deadline, subject=shown, progress=progress):
            room = self._store_context.folder.room(Bucket.GIT.value)
            now = self._store_context.clock()
            with adding_to(self._store_context.folder.path):
                (room / name).mkdir(mode=0o700, exist_ok=True)
                (room / name / URL_NAME).write_text(shown + "\n", encoding="utf-8", errors="replace")
                os.utime(room / name / URL_NAME, (now, now))
            yield room / name

    def commit(self, url: str, commit: str) -> Mapping[str, Any] | None:
        """Return the record of a commit; None if there is none."""
        if not self._store_context.folder.checked():
            return None
        try:
            with open(self._record(url, commit), "rb") as file:
                record = json.loads(file.read(_MAX_RECORD_BYTES))
                now = self._store_context.clock()
                if not 0 <= now - os.fstat(file.fileno()).st_mtime < _TOUCH_SECONDS:
                    with suppress(OSError):
                        os.utime(file.fileno(), (now, now))
        except (OSError, ValueError, RecursionError):
            return None
        return record if isinstance(record, dict) else None

    def note(self, url: str, commit: str, facts: Mapping[str, Any]) -> None:
        """Write the record of a commit, replacing an earlier one.

        Raises:
            CacheError: it cannot be written.
        """
        record = self._record(url, commit)
        self._store_context.folder.room(Bucket.COMMITS.value)
        with self._store_context.staging_area.place() as place, adding_to(self._store_context.folder.path):
            (place / "record").write_bytes(json.dumps(dict(facts), sort_keys=True).encode() + b"\n")
            with self._store_context.names_locked():  # or its folder could go meanwhile
                record.parent.mkdir(mode=0o700, exist_ok=True)
                os.replace(place / "record", record)

    def _record(self, url: str, commit: str) -> Path:
        if not _COMMIT.fullmatch(commit):
            raise ValueError(f"{commit!r} is not a commit")
        return self.commits_folder / _digest(url) / commit


def lock_name(name: str) -> str:
    """Return the name that the repository in the folder `name` is locked by."""
    return f"{Bucket.GIT.value}/{name}"


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", "surrogateescape")).hexdigest()
