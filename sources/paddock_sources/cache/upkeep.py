"""Maintain the cache: list its entries, verify them, and remove unused ones.

All of it can be done while hosts are at work. An entry that one of them uses stays. A removed entry is first moved out
of sight, so that an entry exists as a whole or not at all.
"""

from __future__ import annotations

import builtins
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from paddock_sources.cache import marker as markers
from paddock_sources.cache.cache_folder import DOWNLOADS_MARK, Bucket
from paddock_sources.cache.entry_store import EntryStore, StoreContext
from paddock_sources.cache.errors import CacheError, UnsafeTreeError, adding_to, reason_of
from paddock_sources.cache.in_use_locks import InUseLocks, alone_with
from paddock_sources.cache.repositories import URL_NAME, Repositories, lock_name
from paddock_sources.cache.staging import ROOM as STAGING_AREA
from paddock_sources.cache.tree_digest import tree_contents

_FORMAT: Final = re.compile(rf"({'|'.join(bucket.value.partition('-')[0] for bucket in Bucket)})-v[0-9]{{1,4}}")
_REPOSITORY: Final = re.compile(r"[0-9a-f]{64}")
_MAX_URL_BYTES: Final = 8192


@dataclass(frozen=True, slots=True)
class CacheItem:
    """One thing in the cache; `name` is its digest or, of a repository, its address. Times are since the epoch."""

    bucket: Bucket
    name: str
    path: Path
    bytes: int
    files: int = 0
    made_at: float | None = None
    used_at: float | None = None
    is_damaged: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that differs from what was put into the cache. It is no longer handed out if `is_refused`."""

    bucket: Bucket
    name: str
    path: Path
    problem: str
    is_refused: bool


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The removed entries, and those that had to stay because they are in use."""

    items: int
    bytes: int
    in_use: tuple[CacheItem, ...] = ()


@dataclass(eq=False, slots=True)
class CacheMaintenance:
    """Maintains the stores and the repositories of one cache."""

    store_context: StoreContext
    stores: tuple[EntryStore, ...]
    repositories: Repositories

    def list(self) -> tuple[CacheItem, ...]:
        """Return all that there is, but for records of commits, which are no size."""
        if not self.store_context.folder.checked():
            return ()
        items = [item for store in self.stores for item in _items_of(store)]
        items += self._repository_items()
        items += self._download_items()
        return tuple(items)

    def size(self) -> Mapping[str, int]:
        """Return how many bytes each folder takes, with those that are being built."""
        sizes = {bucket.value: 0 for bucket in Bucket}
        for item in self.list():
            sizes[item.bucket.value] += item.bytes
        sizes[Bucket.COMMITS.value] = _bytes_in(self.repositories.commits_folder)
        sizes[STAGING_AREA] = _bytes_in(self.store_context.folder.path / STAGING_AREA)
        return sizes

    def verify(self) -> tuple[Damage, ...]:
        """Read everything and return what differs from what was put there."""
        if not self.store_context.folder.checked():
            return ()
        found = [damage for store in self.stores for damage in _damages_of(store)]
        return (*found, *self._damaged_records())

    def prune(self, max_age: float) -> PruneResult:
        """Remove entries unused for so many seconds, and those that are useless."""
        return self._take_away(self.store_context.clock() - max_age)

    def clean(self) -> PruneResult:
        """Take away all that is not in use, and what other versions of Paddock keep here in another format."""
        found = self._take_away(None)
        known = {bucket.value for bucket in Bucket}
        # Of other formats; their own version alone knows what of them is in use.
        folders = [one for one in _folders_in(self.store_context.folder.path) if _FORMAT.fullmatch(one.name)]
        sizes = [(folder, _bytes_in(folder)) for folder in folders if folder.name not in known]
        gone = [size for folder, size in sizes if self._move_out(folder)]
        return PruneResult(found.items + len(gone), found.bytes + sum(gone), found.in_use)

    # -- taking away

    def _take_away(self, used_before: float | None) -> PruneResult:
        if not self.store_context.folder.checked():
            return PruneResult(0, 0)
        self.store_context.staging_area.sweep()
        gone: builtins.list[int] = []
        in_use: builtins.list[CacheItem] = []
        for item in self.list():
            is_old = used_before is None or item.used_at is None or item.used_at < used_before
            if not (is_old or item.is_damaged):
                continue
            if self._remove(item, None if item.is_damaged else used_before):
                gone.append(item.bytes)
            elif os.path.lexists(item.path):
                in_use.append(item)
        now = self.store_context.clock()
        with adding_to(self.store_context.folder.path):
            for record in self._records():
                with suppress(FileNotFoundError):
                    if used_before is None or min(record.stat().st_mtime, now) < used_before:
                        record.unlink()
        with self.store_context.names_locked(), suppress(OSError):
            for folder in os.scandir(self.repositories.commits_folder):
                with suppress(OSError):  # there is something in it
                    os.rmdir(folder.path)
        return PruneResult(len(gone), sum(gone), tuple(in_use))

    def _remove(self, item: CacheItem, used_before: float | None) -> bool:
        if item.bucket is Bucket.GIT:
            return self._remove_repository(item.path)
        if item.bucket is Bucket.DOWNLOADS:
            mark = item.path / DOWNLOADS_MARK
            with adding_to(self.store_context.folder.path):
                mark.touch(mode=0o600)
            with alone_with(mark) as is_alone:
                return is_alone and self._move_out(item.path)
        store = next(store for store in self.stores if store.bucket is item.bucket)
        return store.remove(item.name, used_before=used_before)

    def _remove_repository(self, folder: Path) -> bool:
        try:
            with self.store_context.folder.locked(lock_name(folder.name), 0):
                return self._move_out(folder)
        except CacheError as error:
            if error.code != "CacheBusyError":
                raise
            return False

    def _move_out(self, folder: Path) -> bool:
        with self.store_context.staging_area.place() as place, adding_to(self.store_context.folder.path):
            try:
                os.rename(folder, place / "removed")
            except FileNotFoundError:
                return False
            self.store_context.stage("moved out")
            return True

    # -- contents

    def _repository_items(self) -> Iterator[CacheItem]:
        for folder in _folders_in(self.repositories.folder):
            if not _REPOSITORY.fullmatch(folder.name):
                continue
            try:
                with open(folder / URL_NAME, "rb") as file:
                    url = file.read(_MAX_URL_BYTES).decode("utf-8", "replace").strip()
                    used_at = min(os.fstat(file.fileno()).st_mtime, self.store_context.clock())
            except OSError:
                url, used_at = folder.name, None
            yield CacheItem(Bucket.GIT, url, folder, _bytes_in(folder), used_at=used_at)

    def _download_items(self) -> Iterator[CacheItem]:
        folder = self.store_context.folder.path / Bucket.DOWNLOADS.value
        try:
            used_at = min(os.stat(folder / DOWNLOADS_MARK).st_mtime, self.store_context.clock())
        except OSError:
            used_at = None
        if folder.is_dir():
            yield CacheItem(Bucket.DOWNLOADS, "files of installers", folder, _bytes_in(folder), used_at=used_at)

    def _records(self) -> Iterator[Path]:
        for folder in _folders_in(self.repositories.commits_folder):
            with suppress(OSError):
                yield from sorted(folder.iterdir())

    def _damaged_records(self) -> Iterator[Damage]:
        for record in self._records():
            try:
                is_good = isinstance(json.loads(record.read_bytes()), dict)
            except FileNotFoundError:
                continue
            except (OSError, ValueError, RecursionError):
                is_good = False
            if not is_good:
                yield Damage(Bucket.COMMITS, record.name, record, "it is no record of a commit", True)


def _items_of(store: EntryStore) -> Iterator[CacheItem]:
    for digest in store.entries():
        place = store.place(digest)
        marker = store.marker(digest)
        if marker is not None:
            contents = marker.contents
            yield CacheItem(
                store.bucket,
                digest,
                place,
                contents.bytes,
                contents.files,
                marker.made_at,
                store.used_at(digest),
                facts=marker.facts,
            )
        elif place.exists():
            yield CacheItem(store.bucket, digest, place, _bytes_in(place), is_damaged=True)


def _damages_of(store: EntryStore) -> Iterator[Damage]:
    for digest in store.entries():
        problem = problem_of(store, digest)
        if problem:
            place = store.place(digest)
            is_refused = store.mark_damaged(digest) or store.marker(digest) is None
            yield Damage(store.bucket, digest, place, problem, is_refused)


def problem_of(store: EntryStore, digest: str) -> str:
    """Read an entry in full and return its problem; empty if it is sound or absent."""
    place = store.place(digest)
    in_use = InUseLocks()  # or it could be taken away while it is read
    try:
        held = in_use.hold(os.fspath(place / markers.NAME))
        marker = store.marker(digest)
        if not held or marker is None:
            if not place.exists():
                return ""
            was_found = os.path.lexists(place / markers.DAMAGED_NAME)
            return "it was found damaged before" if was_found else "it has no marker, or one that says nothing"
        own = () if store.bucket.content else (markers.NAME, markers.DAMAGED_NAME)
        contents = tree_contents(place / store.bucket.content, without=own)
    except (OSError, UnsafeTreeError, CacheError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        return f"it cannot be read: {reason}"
    finally:
        in_use.close()
    if contents.digest != marker.contents.digest:
        return "its files are not what was put there"
    if store.bucket is Bucket.TREES and contents.digest != digest:
        return "its files are those of another tree"
    return ""


def _folders_in(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            paths = sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    yield from map(Path, paths)


def _bytes_in(folder: Path) -> int:
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # gone by now
                total += os.lstat(os.path.join(at, name)).st_size
    return total
