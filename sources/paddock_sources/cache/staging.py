"""Where entries are built before they are renamed into place: folders in `tmp/`, on the same file system.

Each has a file beside it, which the process that works there holds locked. A free lock means that the process is dead.
Other processes then sweep its leftovers away, without guessing from names or times.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from paddock_sources.cache.cache_folder import CacheFolder
from paddock_sources.cache.errors import adding_to

ROOM: Final = "tmp"
_MARK: Final = ".lock"


class StagingArea:
    """The places to build at, in one cache."""

    def __init__(self, folder: CacheFolder) -> None:
        self._folder = folder
        self._is_swept = False

    @contextmanager
    def place(self) -> Iterator[Path]:
        """Return a new, empty folder, which is removed with all that is left in it.

        Raises:
            CacheError: there is no room for it.
        """
        room = self._folder.room(ROOM)
        if not self._is_swept:
            self._is_swept = True
            self.sweep()
        with adding_to(self._folder.path):
            mark, descriptor = _new_mark(room)
        try:
            place = mark.with_suffix("")
            try:
                with adding_to(self._folder.path):
                    place.mkdir(mode=0o700)
                yield place
            finally:
                with suppress(OSError):  # it will be swept; the first error matters
                    remove(place)
                    mark.unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def sweep(self) -> int:
        """Remove the leftovers of dead processes; return how many places that were."""
        room = self._folder.path / ROOM
        try:
            names = sorted(os.listdir(room))
        except OSError:
            return 0
        swept = 0
        for name in names:
            if name.endswith(_MARK):
                swept += _sweep_marked(room / name)
            elif not os.path.lexists(room / (name + _MARK)):
                # Not of ours: a mark is made before its folder, and removed after it.
                with suppress(OSError):
                    remove(room / name)
        return swept


def _new_mark(room: Path) -> tuple[Path, int]:
    while True:
        mark = room / f"{os.getpid()}-{secrets.token_hex(8)}{_MARK}"
        descriptor = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if _is_alone(descriptor) and mark.exists():
            return mark, descriptor
        os.close(descriptor)  # swept in the moment before it was locked


def _sweep_marked(mark: Path) -> int:
    try:
        descriptor = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        if not _is_alone(descriptor):
            return 0
        remove(mark.with_suffix(""))
        mark.unlink(missing_ok=True)
    except OSError:
        return 0
    finally:
        os.close(descriptor)
    return 1


def _is_alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder; a missing one is no error. Links are not followed.

    Raises:
        OSError: something cannot be removed.
    """
    folders: list[str] = []
    waiting = [os.fspath(path)]
    while waiting:  # not recursive: a stranger may have chosen the depth
        at = waiting.pop()
        with suppress(FileNotFoundError):
            mode = os.lstat(at).st_mode
            if not stat.S_ISDIR(mode):
                os.unlink(at)
                continue
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(at, 0o700)
            folders.append(at)
            with os.scandir(at) as entries:
                waiting += [entry.path for entry in entries]
    for folder in reversed(folders):
        with suppress(FileNotFoundError):
            os.rmdir(folder)
