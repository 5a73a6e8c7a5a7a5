"""Errors of the cache, and of trees that are put into it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from paddock_sources.errors import SourceError

FULL = (errno.ENOSPC, errno.EDQUOT)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


CacheCode = Literal[
    "CacheBusyError",
    "CacheError",
    "CacheFolderError",
    "DigestMismatchError",
    "DiskFullError",
    "ReadOnlyCacheError",
]


class CacheError(SourceError):
    """Raised when the cache in `folder` cannot be used; `problem` says why."""

    code: CacheCode

    def __init__(
        self, folder: Path, problem: str, *, code: CacheCode = "CacheError", hints: Iterable[str] = ()
    ) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(f"the cache `{folder}` {problem}", code=code, hints=hints)

    @classmethod
    def unsafe_folder(cls, folder: Path, problem: str, fix: str) -> Self:
        """Somebody else could put code into the folder."""
        hints = [fix, "or name a folder of your own: `PADDOCK_CACHE_DIR=/path`"]
        return cls(folder, problem, code="CacheFolderError", hints=hints)

    @classmethod
    def disk_full(cls, folder: Path, reason: str) -> Self:
        """There is no room for the new entry; nothing of it is left behind."""
        hints = [
            "make room: `paddock cache prune --older-than 30d`, or `paddock cache clean`",
            "or name a folder on another disk: `PADDOCK_CACHE_DIR=/path`",
        ]
        return cls(folder, f"cannot be added to: {reason}", code="DiskFullError", hints=hints)

    @classmethod
    def busy(cls, folder: Path, name: str, seconds: float) -> Self:
        """Another host kept something locked for longer than could be waited."""
        hints = ["wait for the other `paddock` to be done, or end it, and try again"]
        problem = f"is busy: another process has kept `{name}` for {seconds:g} s"
        return cls(folder, problem, code="CacheBusyError", hints=hints)


class UnsafeTreeError(SourceError):
    """Raised for a tree of files that is unsafe to write; `path` is its first unsafe file."""

    def __init__(self, path: str, problem: str, *, hints: Iterable[str] = ()) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"`{path}` cannot be taken: {problem}", hints=hints)


@contextmanager
def adding_to(folder: Path) -> Iterator[None]:
    """Turn an operating system's error, while an entry is added, into one that explains what to do."""
    try:
        yield
    except OSError as error:
        reason = reason_of(error)
        if error.errno in FULL:
            raise CacheError.disk_full(folder, reason) from error
        if error.errno in READ_ONLY:
            hints = [f"make it writable: `chmod u+rwx {folder}`", "or name another one: `PADDOCK_CACHE_DIR=/path`"]
            problem = f"cannot be added to: {reason}"
            raise CacheError(folder, problem, code="ReadOnlyCacheError", hints=hints) from error
        raise CacheError(folder, f"cannot be added to: {reason}") from error


def reason_of(error: OSError) -> str:
    """Return the operating system's message, as part of a sentence."""
    return (error.strerror or str(error)).lower()
