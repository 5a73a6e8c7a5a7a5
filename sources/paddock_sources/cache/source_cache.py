"""The cache: one folder of the user's, with a room for each kind of thing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from paddock_sources.cache.cache_folder import DOWNLOADS_MARK, ENTRY_BUCKETS, Bucket, CacheFolder
from paddock_sources.cache.entry_store import EntryStore, Stage, StoreContext
from paddock_sources.cache.errors import adding_to
from paddock_sources.cache.in_use_locks import InUseLocks
from paddock_sources.cache.repositories import Repositories
from paddock_sources.cache.staging import StagingArea

if TYPE_CHECKING:
    from paddock_sources.cache.upkeep import CacheMaintenance

VARIABLE: Final = "PADDOCK_CACHE_DIR"


class SourceCache:
    """The cache in `folder`, which is created when something is added.

    Entries got from it stay in use until it is closed or this process ends: keep it open while code from it runs.
    Threads may share it. `clock` is the time of day; `stage` is called with the progress of each change. `check` is
    called several times a second during a wait for another host; its exception ends the wait and propagates. `recalls`
    says whether versions that were chosen from the same inputs within the last day are taken again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.time,
        stage: Stage = lambda name: None,
        check: Callable[[], None] = lambda: None,
        recalls: bool = True,
    ) -> None:
        place = CacheFolder(folder, check)
        self._store_context = StoreContext(place, StagingArea(place), InUseLocks(), clock, stage)
        self._stores = {bucket: EntryStore(bucket, self._store_context) for bucket in ENTRY_BUCKETS}
        self.folder = place.path
        self.recalls = recalls
        self.repositories = Repositories(self._store_context)

    @classmethod
    def of_user(cls, environ: Mapping[str, str], *, check: Callable[[], None] = lambda: None) -> Self:
        """Return the cache that `environ` names, or else the one that the user has by default."""
        return cls(place_of_user(environ), check=check)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all entries."""
        self._store_context.in_use.close()

    def store(self, bucket: Bucket) -> EntryStore:
        """Return the entries of one kind."""
        return self._stores[bucket]

    @property
    def trees(self) -> EntryStore:
        """The trees of files, by their digests."""
        return self._stores[Bucket.TREES]

    def scratch(self) -> AbstractContextManager[Path]:
        """Return a new, empty folder on the file system of the cache, removed when it is left, or when its user dies.

        Raises:
            CacheError: there is no room for it.
        """
        return self._store_context.staging_area.place()

    @contextmanager
    def downloads(self) -> Iterator[Path]:
        """Yield a folder in which programs for packages keep folders of their own between runs.

        Its contents are not removed before this is left.

        Raises:
            CacheError: there is no room for it.
        """
        room = self._store_context.folder.room(Bucket.DOWNLOADS.value)
        in_use = InUseLocks()
        mark = room / DOWNLOADS_MARK
        now = self._store_context.clock()
        with adding_to(self.folder):
            mark.touch(mode=0o600)
            os.utime(mark, (now, now))
            in_use.hold(os.fspath(mark))
        try:
            yield room
        finally:
            in_use.close()

    @cached_property
    def upkeep(self) -> CacheMaintenance:
        """What lists, verifies and removes all there is in it; only commands about the cache load that."""
        from paddock_sources.cache.upkeep import CacheMaintenance

        return CacheMaintenance(self._store_context, tuple(self._stores.values()), self.repositories)

    def problem_of(self, bucket: Bucket, digest: str) -> str:
        """Read one entry in full and return its problem; empty if it is sound or absent.

        A damaged entry is no longer handed out.
        """
        from paddock_sources.cache.upkeep import problem_of

        store = self.store(bucket)
        problem = problem_of(store, digest)
        if problem:
            store.mark_damaged(digest)
        return problem


def place_of_user(environ: Mapping[str, str]) -> Path:
    """Return where the cache of the user with `environ` is, absolute, as it is named: a link may be on the way."""
    if environ.get(VARIABLE):
        return Path(os.path.abspath(environ[VARIABLE]))
    # As platformdirs has it, which looks only at the environment of this process.
    named = environ.get("XDG_CACHE_HOME", "").strip()
    if os.path.isabs(named):
        return Path(named) / "paddock"
    home = environ.get("HOME", "")
    if os.path.isabs(home) and sys.platform != "darwin":
        return Path(home) / ".cache" / "paddock"
    from platformdirs import user_cache_path

    return user_cache_path("paddock", appauthor=False)
