"""The entries that this process uses: each has a shared lock until the cache is closed or the process ends.

The lock is the kernel's, so it ends with its process in any case. A process that removes an entry locks it exclusively
first, and leaves it in place if that fails. On a file system without locks nothing is ever removed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HELD_ELSEWHERE: Final = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class InUseLocks:
    """The markers that are held open and locked, by their paths."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._lock = threading.RLock()

    def hold(self, path: str) -> bool:
        """Lock the marker at `path` from now on; return whether there is one that is not about to go.

        Raises:
            OSError: it cannot be opened.
        """
        with self.held(path) as descriptor:
            return descriptor is not None

    @contextmanager
    def held(self, path: str) -> Iterator[int | None]:
        """Hold the marker at `path` and yield it for reading; no other thread closes it meanwhile. None as for `hold`.

        Raises:
            OSError: it cannot be opened.
        """
        with self._lock:
            yield self._opened(path)

    def _opened(self, path: str) -> int | None:
        held = self._held.get(path)
        if held is not None:
            if _is_at(held, path):
                return held
            os.close(self._held.pop(path))  # a person removed it by hand
        descriptor = _opened(path, os.O_RDONLY)
        if descriptor is None:
            return None
        if not (_locked(descriptor, fcntl.LOCK_SH) and _is_at(descriptor, path)):
            os.close(descriptor)
            return None
        self._held[path] = descriptor
        return descriptor

    def keep(self, path: str, descriptor: int) -> None:
        """Hold a marker that was locked before it came to be at `path`."""
        with self._lock:
            before = self._held.pop(path, None)
            self._held[path] = descriptor
            if before is not None:
                os.close(before)

    def drop(self, path: str) -> None:
        """Hold a marker no longer."""
        with self._lock:
            held = self._held.pop(path, None)
            if held is not None:
                os.close(held)

    def close(self) -> None:
        """Hold none any longer."""
        with self._lock:
            for descriptor in self._held.values():
                os.close(descriptor)
            self._held.clear()


def opened_to_use(path: Path) -> int:
    """Return a marker that is not visible to others yet, open and locked as a user of the entry does."""
    descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    _locked(descriptor, fcntl.LOCK_SH)
    return descriptor


@contextmanager
def alone_with(path: Path) -> Iterator[bool]:
    """Yield whether no other process uses the marker at `path`; none can begin to before this is left."""
    try:
        descriptor = _opened(os.fspath(path), os.O_RDWR)
    except OSError:
        descriptor = None
    if descriptor is None:
        yield False
        return
    try:
        yield _locked(descriptor, fcntl.LOCK_EX, without_locks=False) and _is_at(descriptor, os.fspath(path))
    finally:
        os.close(descriptor)


def _opened(path: str, mode: int) -> int | None:
    try:
        return os.open(path, mode | _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _locked(descriptor: int, kind: int, *, without_locks: bool = True) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD_ELSEWHERE:
            return False
        if error.errno in _NO_LOCKS:
            return without_locks
        raise
    return True


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)
