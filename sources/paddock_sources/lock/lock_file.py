"""`paddock.lock`: the exact code of each source in a folder's plans, so that every start gets the same bytes.

Reading is strict and bounded. Writing leaves the old file or the new one, never anything between. If several processes
change it at once, none undoes the change of another.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from paddock_sources.errors import SourceError
from paddock_sources.lock.lock_text import LockTextError, lock_text, parse_lock
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.uri import FolderUri, SourceUri

__all__ = ["LOCK_FILE", "LockFile", "LockFileError", "LockedDependency", "LockedModule", "turn"]

LOCK_FILE: Final = "paddock.lock"

_MAX_BYTES: Final = 2 << 20  # of a hundred modules with a hundred dependencies each
_TURN_SECONDS: Final = 10.0  # others hold the folder for as long as it takes to write one file
_PAUSE: Final = 0.01
_CANNOT_LOCK: Final = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EINVAL)  # folders of some network file systems


class LockFileError(SourceError):
    """Raised for a lock file that cannot be read, used, or written; `line` is set if it is known."""

    def __init__(
        self,
        path: Path,
        problem: str,
        *,
        line: int | None = None,
        hints: Iterable[str] = (),
    ) -> None:
        self.path = path
        self.problem = problem
        self.line = line
        place = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"lock file `{place}`: {problem}", hints=hints)


@dataclass(frozen=True, slots=True)
class LockFile:
    """The contents of a lock file: each source once, and each repository of `bundles` once."""

    modules: tuple[LockedModule, ...] = ()
    bundles: tuple[LockedModule, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the contents of the file at `path`; without a file, nothing is locked.

        Raises:
            LockFileError: the file exists and is not valid.
        """
        content = _content(path)
        if content is None:
            return cls()
        try:
            return cls(*parse_lock(content.decode("utf-8")))
        except UnicodeDecodeError as error:
            raise LockFileError(path, f"it is not UTF-8 text, at byte {error.start}") from error
        except LockTextError as error:
            raise LockFileError(path, error.problem, line=error.line, hints=error.hints) from error

    @classmethod
    def update(
        cls,
        path: Path,
        change: Callable[[Self], Self],
        *,
        on_write: Callable[[Self, Self], None] | None = None,
        seconds: float = _TURN_SECONDS,
    ) -> Self:
        """Apply `change` to the current contents of the file, write the result and return it.

        `on_write` is called with the old and the new contents, before another process can change the file through this
        function; not if it stays as it is. Neither function may take long: other processes wait for them. The
        wait for another process ends after `seconds`.

        Raises:
            LockFileError: the file is not valid, or cannot be written.
        """
        with turn(path, seconds):
            before = cls.read(path)
            after = change(before)
            if after != before:
                after.write(path)
                if on_write is not None:
                    on_write(before, after)
        return after

    def write(self, path: Path) -> None:
        """Replace the contents of the file; on failure the old contents stay.

        Raises:
            LockFileError: it cannot be written.
        """
        try:
            text = lock_text(self.modules, self.bundles)
        except LockTextError as error:
            raise LockFileError(path, f"it cannot be written: {error.problem}", hints=error.hints) from error
        try:
            _replace(path, text.encode("utf-8"))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise LockFileError(
                path,
                f"it cannot be written: {reason}",
                hints=["make its folder one that you can write to, or use the file as it is, with `--frozen`"],
            ) from error

    def get(self, source: str) -> LockedModule | None:
        """Return the locked module of the source with this key."""
        return next((module for module in self.modules if module.source == source), None)

    def of(self, uri: SourceUri, folder: Path) -> LockedModule | None:
        """Return the locked module of a source in this file, which is in `folder`.

        Where a link has replaced a locked folder, the source that the link leads to is the locked one.

        Raises:
            SourceUriError: the source is ambiguous.
        """
        key = uri.key(folder)
        found = self.get(key)
        if found is not None or not isinstance(uri, FolderUri):
            return found
        for module in self.modules:
            locked = module.uri(folder)
            if isinstance(locked, FolderUri) and locked.key(folder) == key:
                return module
        return None

    def with_modules(self, modules: Iterable[LockedModule]) -> Self:
        """Return a copy with these modules, replacing those locked for their sources."""
        known = {module.source: module for module in (*self.modules, *modules)}
        return replace(self, modules=tuple(known[source] for source in sorted(known)))

    def with_bundles(self, bundles: Iterable[LockedModule]) -> Self:
        """Return a copy with these repositories of bundles, and no others."""
        return replace(self, bundles=tuple(sorted(bundles, key=lambda row: row.source)))

    def with_news(self, news: Iterable[LockedModule], since: LockFile) -> Self:
        """Return a copy with `news`, except for sources whose entry is no longer as it was in `since`.

        This keeps entries that others locked after `since` was read.
        """
        return self.with_modules(one for one in news if self.get(one.source) == since.get(one.source))

    def without(self, sources: Iterable[str]) -> Self:
        """Return the same without the sources with these keys."""
        gone = frozenset(sources)
        return replace(self, modules=tuple(module for module in self.modules if module.source not in gone))


def linked_lock(path: Path) -> LockFileError:
    """Return the error for a link in the place of a lock file."""
    return LockFileError(path, "it is a link, and has to be a file", hints=["put the file itself there"])


def _content(path: Path) -> bytes | None:
    try:
        # Not blocking: a fifo would otherwise hold the host until another process writes to it.
        # Not through a link either: the target of a project's link is not a lock file, and writing would make it one.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise LockFileError(path, "it is not a regular file")
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise linked_lock(path) from error
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise LockFileError(path, f"it cannot be read: {reason}") from error
    if len(content) > _MAX_BYTES:
        raise LockFileError(path, f"it is larger than {_MAX_BYTES >> 20} MiB")
    return content


def _replace(path: Path, content: bytes) -> None:
    """Replace the file by one with `content`, with the same rights."""
    try:
        found = path.lstat()
        mode = None if stat.S_ISLNK(found.st_mode) else stat.S_IMODE(found.st_mode)
    except FileNotFoundError:
        mode = None
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


@contextmanager
def turn(path: Path, seconds: float = _TURN_SECONDS) -> Iterator[None]:
    """Lock the file's folder, which needs no file beside it; wait at most `seconds` for another holder.

    Anybody who can open the folder can keep the lock: it puts writers in order, and protects nothing.

    Raises:
        LockFileError: the folder cannot be opened, or another process holds it for long.
    """
    folder = path.absolute().parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LockFileError(path, f"its folder cannot be opened: {reason}") from error
    try:
        _hold(descriptor, path, seconds)
        yield
    finally:
        os.close(descriptor)


def _hold(descriptor: int, path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno in _CANNOT_LOCK:
                return  # without locks, the file is still written as a whole
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise LockFileError(path, f"its folder cannot be held: {(error.strerror or '').lower()}") from error
        if time.monotonic() > deadline:
            raise LockFileError(
                path,
                f"somebody else has been changing it for {seconds:.0f} s",
                hints=["try again when that is done"],
            )
        time.sleep(_PAUSE)
