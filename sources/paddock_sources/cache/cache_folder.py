"""The folder of the cache: who owns it, how it is made, and its locks.

Its contents are executed. So only the user and root may be able to change or replace the folder. Lock files stay for
ever, empty: deleting one that another process waits for would let two in.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock_sources.cache.errors import CacheError, adding_to
from paddock_sources.progress import Progress, ProgressStep, SilentProgress

if TYPE_CHECKING:
    from filelock import FileLock

_TAG: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file marks the folder as a cache: see https://bford.info/cachedir/\n"
)
DOWNLOADS_MARK: Final = "used"  # in the folder of downloads; it shows when they were used last

_LOCKS: Final = "locks"
_PATIENCE: Final = 0.5  # seconds of waiting that are not reported
_POLL: Final = 0.02  # seconds
_GLANCE_SECONDS: Final = 0.2  # between two checks whether the caller still waits
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Bucket(Enum):
    """A part of the cache, by the name of its folder.

    The number in a name changes with the format of its contents, so that versions can live together.
    """

    GIT = "git-v1"
    COMMITS = "commits-v1"
    TREES = "trees-v2"
    ENVIRONMENTS = "envs-v1"
    METADATA = "metadata-v1"
    RESOLUTIONS = "resolutions-v1"
    DOWNLOADS = "downloads-v1"

    @property
    def content(self) -> str:
        """The folder of an entry that its digest covers, if the digest is of its files; empty for the whole entry."""
        # With a dot: the name of no package, as which a repository with an `__init__.py` would be imported by it.
        return "tree.d" if self is Bucket.TREES else ""


ENTRY_BUCKETS = (Bucket.TREES, Bucket.ENVIRONMENTS, Bucket.METADATA, Bucket.RESOLUTIONS)


class CacheFolder:
    """The folder at `path`, which need not exist yet; an exception of `check` ends a wait for a lock and propagates.

    Links on the way are followed once, now: sandboxes are made of what is in the folder, and follow none. One that
    leads nowhere stays in the path, and is an error of what uses it.
    """

    def __init__(self, path: Path, check: Callable[[], None] = lambda: None) -> None:
        named = Path(os.path.abspath(path))
        there = next(place for place in (named, *named.parents) if os.path.lexists(place))
        self.path = Path(os.path.realpath(named)) if there.exists() else named
        self._check = check
        self._is_checked = False
        self._is_made = False

    def checked(self) -> bool:
        """Return whether it exists.

        Raises:
            CacheError: it exists, and another user could put code into it.
            CacheError: another kind of file is in its place.
        """
        if not self._is_checked:
            try:
                real = self.path.resolve(strict=True)
            except (FileNotFoundError, NotADirectoryError):
                return False
            except (OSError, RuntimeError) as error:
                raise CacheError(self.path, f"cannot be reached: {error}") from error
            if not real.is_dir():
                raise CacheError(self.path, "is not a folder", hints=["remove what is there, or set PADDOCK_CACHE_DIR"])
            self._check_owners(real)
            self._is_checked = True
        return True

    def make(self) -> None:
        """Create the folder and the standard contents of a cache, unless all of it exists.

        Raises:
            CacheError: that cannot be done, or another user could put code into it.
        """
        if self._is_made:
            return
        with adding_to(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            self.checked()
            (self.path / _LOCKS).mkdir(mode=0o700, exist_ok=True)
            for name, text in (("CACHEDIR.TAG", _TAG), (".gitignore", "*\n")):
                if not (self.path / name).exists():
                    (self.path / name).write_text(text, encoding="utf-8")
        self._is_made = True

    def room(self, name: str) -> Path:
        """Return the folder of that name in the cache, creating it if needed; raises as `make` does."""
        self.make()
        with adding_to(self.path):
            (self.path / name).mkdir(mode=0o700, exist_ok=True)
        return self.path / name

    @contextmanager
    def locked(
        self,
        name: str,
        deadline: float,
        *,
        subject: str = "",
        progress: Progress | None = None,
    ) -> Iterator[None]:
        """Lock `name` against all other hosts and threads, waiting at most `deadline` seconds.

        A wait that lasts is reported as a step of `subject`.

        Raises:
            CacheError: another process kept the lock.
            CacheError: nothing can be locked here.
        """
        from filelock import FileLock  # here and below, because most starts find all that they need and lock nothing

        self.make()
        plain = name.replace("/", ".")
        if not _PLAIN_NAME.fullmatch(plain):
            plain = hashlib.sha256(name.encode()).hexdigest()
        lock = FileLock(self.path / _LOCKS / plain, mode=0o600)
        with adding_to(self.path):
            self._acquire(lock, name, deadline, subject or name, progress or SilentProgress())
        try:
            yield
        finally:
            lock.release()

    def _acquire(
        self,
        lock: FileLock,
        name: str,
        deadline: float,
        subject: str,
        progress: Progress,
    ) -> None:
        if self._has_come(lock, min(_PATIENCE, deadline)):
            return
        if deadline <= _PATIENCE:
            raise CacheError.busy(self.path, name, deadline)
        waiting = f"{subject} (waiting for another process that is at it)"
        progress.step(ProgressStep(waiting, "fetching"))
        try:
            if not self._has_come(lock, deadline - _PATIENCE):
                raise CacheError.busy(self.path, name, deadline)
        finally:
            progress.finished(waiting)

    def _has_come(self, lock: FileLock, seconds: float) -> bool:
        """Return whether the lock became free within that time."""
        from filelock import Timeout

        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            try:
                lock.acquire(timeout=min(left, _GLANCE_SECONDS), poll_interval=_POLL)
                return True
            except Timeout:
                if left <= _GLANCE_SECONDS:
                    return False
            self._check()

    def _check_owners(self, real: Path) -> None:
        """Raise if any other user than this one and root could change the folder's contents or replace the folder."""
        me = os.geteuid()
        inner = os.stat(real)
        if inner.st_uid not in (0, me):
            fix = "name a cache of your own: `PADDOCK_CACHE_DIR=/path`"
            problem = f"belongs to uid {inner.st_uid}, who could change what is run"
            raise CacheError.unsafe_folder(self.path, problem, fix)
        if _others_write(inner):
            mode = f"{stat.S_IMODE(inner.st_mode):04o}"
            problem = f"can be written to by others (mode {mode}), who could change what is run"
            raise CacheError.unsafe_folder(self.path, problem, f"look what is in it, then: chmod go-w {self.path}")
        for folder in real.parents:
            outer = os.stat(folder)
            is_shared = _others_write(outer) and not outer.st_mode & stat.S_ISVTX
            if outer.st_uid not in (0, me) or is_shared:
                problem = f"lies in `{folder}`, in which others could put another in its place"
                fix = "put the cache elsewhere: `PADDOCK_CACHE_DIR=/path`"
                if is_shared and me in (0, outer.st_uid):
                    fix = f"chmod go-w {folder}"
                raise CacheError.unsafe_folder(self.path, problem, fix)


def _others_write(info: os.stat_result) -> bool:
    """Return whether another user than its owner may write to a folder; the owner's private group does not count."""
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and not _is_private_group(info.st_uid, info.st_gid)


def _is_private_group(uid: int, gid: int) -> bool:
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
