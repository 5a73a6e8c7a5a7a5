"""What can go wrong with the cache, and with what is put into it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paddock_sources.errors import SourceError

FULL = (errno.ENOSPC, errno.EDQUOT)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


class CacheError(SourceError):
    """Raised when the cache in `folder` cannot be used as it was meant to; `problem` says why."""

    def __init__(self, folder: Path, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(f"the cache `{folder}` {problem}", hints=hints)


class CacheFolderError(CacheError):
    """Raised for a cache folder that somebody else could put code into."""

    def __init__(self, folder: Path, problem: str, fix: str) -> None:
        super().__init__(folder, problem, hints=[fix, "or name a folder of your own: `PADDOCK_CACHE_DIR=/path`"])


class ReadOnlyCacheError(CacheError):
    """Raised when something is to be added to a cache that can only be read."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.reason = reason
        hints = [f"make it writable: `chmod u+rwx {folder}`", "or name another one: `PADDOCK_CACHE_DIR=/path`"]
        super().__init__(folder, f"cannot be added to: {reason}", hints=hints)


class DiskFullError(CacheError):
    """Raised when there is no room for what is to be added; nothing of it is left behind."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.reason = reason
        hints = [
            "make room: `paddock cache prune --older-than 30d`, or `paddock cache clean`",
            "or name a folder on another disk: `PADDOCK_CACHE_DIR=/path`",
        ]
        super().__init__(folder, f"cannot be added to: {reason}", hints=hints)


class CacheBusyError(CacheError):
    """Raised when another host kept something locked for longer than could be waited."""

    def __init__(self, folder: Path, name: str, seconds: float) -> None:
        self.name = name
        self.seconds = seconds
        hints = ["wait for the other `paddock` to be done, or end it, and try again"]
        super().__init__(folder, f"is busy: another process has kept `{name}` for {seconds:g} s", hints=hints)


class DigestMismatchError(CacheError):
    """Raised when what was built for a digest has another one."""

    def __init__(self, folder: Path, wanted: str, built: str) -> None:
        self.wanted = wanted
        self.built = built
        super().__init__(folder, f"was to be given `{wanted}`, and got something else: `{built}`")


class UnsafeTreeError(SourceError):
    """Raised for a tree of files that no machine should be asked to write; `path` is the first such file of it."""

    def __init__(self, path: str, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"`{path}` cannot be taken: {problem}", hints=hints)


@contextmanager
def adding_to(folder: Path) -> Iterator[None]:
    """Make of an operating system's error, while something is added to the cache, one that says what to do."""
    try:
        yield
    except OSError as error:
        reason = reason_of(error)
        if error.errno in FULL:
            raise DiskFullError(folder, reason) from error
        if error.errno in READ_ONLY:
            raise ReadOnlyCacheError(folder, reason) from error
        raise CacheError(folder, f"cannot be added to: {reason}") from error


def reason_of(error: OSError) -> str:
    """Return what the operating system says, as part of a sentence."""
    return (error.strerror or str(error)).lower()
