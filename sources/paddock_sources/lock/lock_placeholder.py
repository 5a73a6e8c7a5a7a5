"""A lock file that stands in a folder only while sessions run there, so that no module can make one.

It locks nothing. The last session that holds it removes it; one that was killed leaves it, and the next session of the
folder removes it then. A file that anybody else wrote in its place stays. Holding never fails: without it, the file
merely remains.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from paddock_sources.lock.lock_file import LockFileError, turn
from paddock_sources.lock.lock_text import VERSION

_TEXT: Final = (
    b"# Nothing is locked here. Paddock keeps this file while a session runs in this folder, and removes it after.\n"
    b"version = %d\n" % VERSION
)


class LockPlaceholder:
    """A session's hold on the placeholder at `path`; others may have one at the same time."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def hold(cls, path: Path) -> Self | None:
        """Make the placeholder, or hold the one that is there; None where there is another file.

        Raises:
            LockFileError: the folder cannot be written to.
        """
        with turn(path):
            made = False
            try:
                try:
                    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                    made = True
                except FileExistsError:
                    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError as error:
                if made or not os.path.lexists(path):
                    reason = (error.strerror or str(error)).lower()
                    raise LockFileError(path, f"it cannot be written: {reason}") from error
                return None
            try:
                if made:
                    os.write(descriptor, _TEXT)
                if _is_placeholder(descriptor):
                    fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return cls(path, descriptor)
            except OSError:  # a file system without locks keeps the file
                pass
            os.close(descriptor)
            return None

    def release(self) -> None:
        """Remove the placeholder, unless another session holds it or it is another file by now."""
        try:
            # Without the others' turn, one could come to hold the file between the question and its removal.
            with suppress(OSError, LockFileError), turn(self._path):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(self._descriptor), self._path.lstat()) and _is_placeholder(
                    self._descriptor
                ):
                    self._path.unlink()
        finally:
            os.close(self._descriptor)


def _is_placeholder(descriptor: int) -> bool:
    return os.pread(descriptor, len(_TEXT) + 1, 0) == _TEXT
