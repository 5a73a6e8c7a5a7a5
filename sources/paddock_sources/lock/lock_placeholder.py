"""A lock file that stands in a folder only while sessions run there, so that no module can make one.

It locks nothing. The last session that holds it removes it; one that was killed leaves it, and the next session of the
folder removes it then. A file that anybody else wrote in its place stays. Anybody who can read the folder can keep the
others' turn from a session: it makes the file without the turn then, and at the end the file may remain.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

from paddock_sources.lock.lock_file import LockFileError, turn
from paddock_sources.lock.lock_text import VERSION

_TEXT: Final = (
    b"# Nothing is locked here. Paddock keeps this file while a session runs in this folder, and removes it after.\n"
    b"version = %d\n" % VERSION
)
_TURN_SECONDS: Final = 1.0  # a writer of the lock file is quicker; a longer wait only serves those who hold things up
_ATTEMPTS: Final = 100  # to make or open a file that others remove and make at the same time
_NOT_ALLOWED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


class LockPlaceholder:
    """A session's hold on the placeholder at `path`; others may have one at the same time."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def hold(cls, path: Path) -> Self | None:
        """Make the placeholder, or hold the one that is there; None where another file is, or none may be made.

        Raises:
            LockFileError: it could not be made, for a reason that may be gone soon.
        """
        with ExitStack() as stack:
            with suppress(LockFileError):
                stack.enter_context(turn(path, _TURN_SECONDS))
            for _ in range(_ATTEMPTS):
                try:
                    descriptor = _opened(path)
                except FileNotFoundError:
                    continue  # it was there, and was removed
                except OSError as error:
                    if os.path.lexists(path) or error.errno in _NOT_ALLOWED:
                        return None
                    reason = (error.strerror or str(error)).lower()
                    raise LockFileError(path, f"it cannot be written: {reason}") from error
                held = cls(path, descriptor)
                if not held._share():
                    os.close(descriptor)
                    return None
                if held._is_in_place():
                    return held
                os.close(descriptor)  # its last holder removed it
        raise LockFileError(path, "others keep removing it")

    def release(self) -> None:
        """Remove the placeholder, unless another session holds it or it is another file by now."""
        try:
            # Without the others' turn, a lock file that is just written could be removed.
            with suppress(OSError, LockFileError), turn(self._path, _TURN_SECONDS):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_in_place() and os.pread(self._descriptor, len(_TEXT) + 1, 0) == _TEXT:
                    self._path.unlink()
        finally:
            os.close(self._descriptor)

    def _share(self) -> bool:
        """Share the file with other sessions; False where it is another file, or cannot be shared and stays."""
        try:
            # Another session may have made it, and not have written all of it yet.
            if not _TEXT.startswith(os.pread(self._descriptor, len(_TEXT) + 1, 0)):
                return False
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.lstat())
        except FileNotFoundError:
            return False


def _opened(path: Path) -> int:
    """Make the file with its text, or open the one that is there."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with suppress(OSError):  # an empty lock file guards as well, and stays
        os.write(descriptor, _TEXT)
    return descriptor
