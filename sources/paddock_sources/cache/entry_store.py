"""The entries of one bucket: folders under their digests, complete as long as they are visible.

An entry is built in the staging area, finalised, marked and only then renamed into place. If two are built
for one digest at once, the second finds the first and is dropped. An entry that was got or added is in use until the
cache is closed. While it is in use, no process removes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paddock_sources.cache import marker as markers
from paddock_sources.cache.cache_folder import Bucket, CacheFolder
from paddock_sources.cache.errors import FULL, CacheError, adding_to, reason_of
from paddock_sources.cache.finalize import finalize, write_out
from paddock_sources.cache.in_use_locks import InUseLocks, alone_with, opened_to_use
from paddock_sources.cache.marker import Marker
from paddock_sources.cache.staging import StagingArea
from paddock_sources.cache.tree_digest import PREFIX, Contents
from paddock_sources.cache.tree_writer import TreeCaps, TreeWriter

_HEX: Final = re.compile(r"[0-9a-f]{64}")
_NAMES: Final = "names"  # the lock under which folders come into buckets, and go
_NAMES_SECONDS: Final = 60.0
_TOUCH_SECONDS: Final = 3600.0  # used again within an hour is no news

Stage = Callable[[str], None]
"""Called with the name of each stage; lets tests interrupt the work there."""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A tree in the cache: `root` is the folder with its files; for `with_compiled` see `Contents`."""

    root: Path
    digest: str
    with_compiled: str = ""


@dataclass(frozen=True, slots=True)
class StoreContext:
    """The common data of a cache's buckets."""

    folder: CacheFolder
    staging_area: StagingArea
    in_use: InUseLocks
    clock: Callable[[], float]
    stage: Stage

    @contextmanager
    def names_locked(self) -> Iterator[None]:
        """Keep other processes from adding to a bucket or removing from it."""
        with self.folder.locked(_NAMES, _NAMES_SECONDS):
            yield


class EntryStore:
    """The entries of `bucket`. A digest is `sha256:` and its hexadecimal digits, or those alone."""

    def __init__(self, bucket: Bucket, store_context: StoreContext) -> None:
        self.bucket = bucket
        self.store_context = store_context
        self.folder = store_context.folder.path / bucket.value
        self._folder_text = os.fspath(self.folder)

    def get(self, digest: str) -> Path | None:
        """Return the folder of an entry, which is in use from now on; None if there is no such entry.

        A tree's files are in `tree.d/` below it. Other entries are as they were built, plus the marker.

        Raises:
            CacheError: the cache cannot be trusted.
        """
        name = _name_of(digest)
        if not self.store_context.folder.checked():
            return None
        return self.folder / name if self._held(name) is not None else None

    def tree(self, digest: str) -> TreeEntry | None:
        """Return the tree of that digest, as `get` does; None if there is no such entry."""
        name = _name_of(digest)
        marker = self._held(name) if self.store_context.folder.checked() else None
        if marker is None:
            return None
        return TreeEntry(self.folder / name / self.bucket.content, PREFIX + name, marker.contents.with_compiled)

    def marker(self, digest: str) -> Marker | None:
        """Return the recorded facts of an entry; None if there is no such entry. This does not mark it as in use."""
        name = _name_of(digest)
        if not self.store_context.folder.checked():
            return None
        try:
            with open(self.folder / name / markers.NAME, "rb") as file:
                return _fitting(Marker.read(file.fileno()), name)
        except OSError:
            return None

    def add(self, digest: str, build: Callable[[Path], None], facts: Mapping[str, Any] | None = None) -> Path:
        """Return the folder of an entry, which `build` fills if it does not exist yet.

        `build` gets the folder, new and empty. Its files may be read-only, and become so. In the bucket of trees it
        writes below `tree.d/`, and the digest must match what it wrote.

        Raises:
            CacheError: it could not be added. Exceptions of `build` propagate, and nothing is added.
        """
        found = self.get(digest)
        if found is not None:
            return found
        with self.begin() as building:
            build(building.folder)
            return building.publish(digest, facts)

    def add_tree(
        self,
        write: Callable[[TreeWriter], None],
        facts: Mapping[str, Any] | None = None,
        caps: TreeCaps | None = None,
    ) -> TreeEntry:
        """Return the entry of a tree that `write` writes and whose digest is known afterwards; raises as `add` does."""
        with self.begin() as building:
            writer = TreeWriter(building.content, caps)
            write(writer)
            digest = writer.finish()
            root = building.publish(digest, facts, writer.contents) / self.bucket.content
            return TreeEntry(root, digest, writer.contents.with_compiled)

    @contextmanager
    def begin(self) -> Iterator[StagedEntry]:
        """Yield a new entry, which is discarded unless it is published before the block ends.

        Raises:
            CacheError: nothing can be added, or the disk became full meanwhile.
        """
        with self.store_context.staging_area.place() as place:
            self.store_context.stage("place made")
            building = StagedEntry(self, place)
            with adding_to(self.store_context.folder.path):
                building.make()
            try:
                yield building
            except OSError as error:
                if error.errno in FULL:
                    raise CacheError.disk_full(self.store_context.folder.path, reason_of(error)) from error
                raise

    def entries(self) -> tuple[str, ...]:
        """Return the digests of all entries, also of damaged ones; a folder of another name is no entry."""
        if not self.store_context.folder.checked():
            return ()
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return ()
        return tuple(sorted(PREFIX + name for name in names if _HEX.fullmatch(name)))

    def used_at(self, digest: str) -> float | None:
        """Return when an entry was last used, in seconds since the epoch; None if there is no such entry."""
        try:
            used_at = os.stat(self.place(digest) / markers.NAME).st_mtime
        except OSError:
            return None
        return min(used_at, self.store_context.clock())  # a clock that was wrong, or goes backwards

    def place(self, digest: str) -> Path:
        """Return the folder that an entry has, or would have, with its marker."""
        return self.folder / _name_of(digest)

    def remove(self, digest: str, *, used_before: float | None = None) -> bool:
        """Take an entry away, unless it is in use, or not older than that; return whether it was.

        Raises:
            CacheError: it cannot be taken away.
        """
        target = self.place(digest)
        # The slow removal happens when the place is left, so that no process waits for it.
        with (
            self.store_context.staging_area.place() as place,
            adding_to(self.store_context.folder.path),
            self.store_context.names_locked(),
        ):
            with ExitStack() as alone:
                for name in (markers.NAME, markers.DAMAGED_NAME):
                    if os.path.lexists(target / name) and not alone.enter_context(alone_with(target / name)):
                        return False
                used_at = self.used_at(digest)
                if used_before is not None and used_at is not None and used_at >= used_before:
                    return False
                try:
                    os.rename(target, place / "removed")
                except FileNotFoundError:
                    return False
                self.store_context.stage("moved out")
            return True

    def mark_damaged(self, digest: str) -> bool:
        """Stop handing out an entry; return whether that could be noted."""
        target = self.place(digest)
        try:
            with self.store_context.names_locked():
                os.rename(target / markers.NAME, target / markers.DAMAGED_NAME)
        except (OSError, CacheError):
            return False
        return True

    # -- building entries

    def take(self, digest: str, entry: Path) -> Path:
        """Move the entry built at `entry`, already marked, into place and return its path."""
        name = _name_of(digest)
        self.store_context.folder.room(self.bucket.value)
        marker = opened_to_use(entry / markers.NAME)
        is_kept = False
        try:
            with adding_to(self.store_context.folder.path), self.store_context.names_locked():
                if self._held(name) is None:
                    if os.path.lexists(self.folder / name):  # damaged: the good one takes its place, also for users
                        os.rename(self.folder / name, entry.with_name("damaged"))
                    self.store_context.stage("about to rename")
                    os.rename(entry, self.folder / name)
                    self.store_context.stage("renamed")
                    self.store_context.in_use.keep(self._marker_text(name), marker)
                    is_kept = True
            return self.folder / name
        finally:
            if not is_kept:
                os.close(marker)

    def _held(self, name: str) -> Marker | None:
        path = self._marker_text(name)
        try:
            with self.store_context.in_use.held(path) as descriptor:
                marker = None if descriptor is None else _fitting(Marker.read(descriptor), name)
                if descriptor is None or marker is None:
                    self.store_context.in_use.drop(path)
                    return None
                now = self.store_context.clock()
                if not 0 <= now - os.fstat(descriptor).st_mtime < _TOUCH_SECONDS:
                    with suppress(OSError):  # it belongs to another user, or cannot be written
                        os.utime(descriptor, (now, now))
                return marker
        except OSError as error:
            raise CacheError(self.store_context.folder.path, f"cannot be read: {reason_of(error)}") from error

    def _marker_text(self, name: str) -> str:
        return f"{self._folder_text}/{name}/{markers.NAME}"


class StagedEntry:
    """An unfinished entry in `folder`. Files go into `content`; for a tree that is `tree.d/`, which `build` creates."""

    def __init__(self, store: EntryStore, place: Path) -> None:
        self._store = store
        self.folder = place / "entry"
        self.content = self.folder / store.bucket.content

    def make(self) -> None:
        """Make its folder."""
        self.folder.mkdir()
        os.chmod(self.folder, 0o755)  # noqa: S103 - modules read what is in it, also those that are another user

    def publish(self, digest: str, facts: Mapping[str, Any] | None = None, contents: Contents | None = None) -> Path:
        """Publish the entry and return its final folder.

        With `contents`, the files are taken to be those, and read-only already, as a `TreeWriter` leaves them.

        Raises:
            CacheError: it could not be added, or it is a tree of another digest.
        """
        store_context = self._store.store_context
        name = _name_of(digest)
        with adding_to(store_context.folder.path):
            store_context.stage("content written")
            self.content.mkdir(exist_ok=True)
            if contents is None:
                contents = finalize(self.content)
                if self.content != self.folder:
                    os.chmod(self.content, 0o555)  # noqa: S103 - as all that is in it
            if self._store.bucket is Bucket.TREES and contents.digest != PREFIX + name:
                problem = f"was to be given `{PREFIX + name}`, and got something else: `{contents.digest}`"
                raise CacheError(store_context.folder.path, problem, code="DigestMismatchError")
            store_context.stage("sealed")
            # The files go to the disk before the marker that vouches for them. If the machine stops before the marker
            # is on the disk, there is no such entry.
            write_out(self.content, contents.files)
            store_context.stage("written out")
            marker = Marker(PREFIX + name, contents, store_context.clock(), dict(facts or {}))
            path = self.folder / markers.NAME
            with open(path, "xb") as file:
                file.write(marker.encode())
            os.utime(path, (marker.made_at, marker.made_at))
            store_context.stage("marked")
        return self._store.take(name, self.folder)


def _name_of(digest: str) -> str:
    name = digest.removeprefix(PREFIX)
    if not _HEX.fullmatch(name):
        raise ValueError(f"{digest!r} is not a digest")
    return name


def _fitting(marker: Marker | None, name: str) -> Marker | None:
    return marker if marker is not None and marker.digest == PREFIX + name else None
