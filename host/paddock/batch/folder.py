"""A task's folder: the working directory of its session, made from the task's files, and what comes back from there.

Modules may leave anything in it. So it is read by descriptors that follow no link, and of what is there only ordinary
files are taken, up to bounds; the others are named. Files are written where only this process leads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from paddock.batch.task import OWN
from paddock.errors import KindError
from paddock.text import escape, reason_of
from paddock.workers.scratch import PrivateFolder, open_to_owner

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_DEPTH_MAX: Final = 32
_BYTES_MAX: Final = 1 << 30  # of all files of a task
_SEEN_MAX: Final = 20_000
_NOTES_MAX: Final = 20


class TaskFolder:
    """The folder of one attempt, at `path`; `remove` removes it. All of this blocks."""

    def __init__(self) -> None:
        self._folder = PrivateFolder()
        self.path = self._folder.path
        self._given: dict[str, tuple[int, int, int]] = {}  # the state of each file that was put there

    def fill(self, files: Mapping[str, str], base: Path) -> None:
        """Put files there, by their names; their paths are relative to `base`, and a link out of it is refused.

        Raises:
            KindError: one is missing, or no ordinary file.
        """
        for name, path in files.items():
            try:
                self._put(name, base.resolve(), path)
            except OSError as error:
                hint = "name an ordinary file there; a link out of it, or a folder, is none"
                problem = f"`{path}`, the task's file `{name}`, cannot be read: {reason_of(error)}"
                raise KindError("TaskInputError", problem, hints=[hint]) from error

    def _put(self, name: str, base: Path, path: str) -> None:
        place = self.path / name
        with _opened(base / path, os.O_RDONLY | os.O_NONBLOCK) as found:
            info = os.fstat(found)
            # Where it is in truth: what runs already may put a link there at any moment.
            real = Path(os.readlink(f"/proc/self/fd/{found}"))
            if not (stat.S_ISREG(info.st_mode) and real.is_relative_to(base)):
                raise OSError(errno.EINVAL, "it is no ordinary file below that folder")
            _copy(found, place, info.st_size)
        place.chmod(info.st_mode & 0o700 | 0o600)
        self._given[name] = _state(place.lstat())

    def remove(self) -> None:
        """Remove the folder with all that modules left in it."""
        self._folder.remove()

    def take(self, out: Path) -> list[str]:
        """Copy each new or changed file to `out`, and return for people what was not taken, and what was removed."""
        taking = _Taking(self._given, out)
        open_to_owner(self.path)
        with _opened(self.path, _FOLDER) as top:
            taking.folder(top, PurePosixPath())
        removed = [name for name in self._given if not os.path.lexists(self.path / name)]
        return [*taking.notes(), *(escape(f"`{name}` was removed") for name in removed[:_NOTES_MAX])]


class _Taking:
    """One walk through a folder."""

    def __init__(self, given: Mapping[str, tuple[int, int, int]], out: Path) -> None:
        self._given = given
        self._out = out
        self._bytes = self._seen = 0
        self._left: list[str] = []  # the first of what was not taken
        self._left_count = 0

    def notes(self) -> list[str]:
        more = self._left_count - len(self._left)
        return [*self._left, *([f"{more} more were not taken"] if more else [])]

    def folder(self, folder: int, place: PurePosixPath) -> None:
        """Take the files of a folder, and of those below it."""
        with os.scandir(folder) as entries:  # a module may have made millions
            names = [entry.name for entry in islice(entries, _SEEN_MAX - self._seen)]
        self._seen += len(names)
        for name in sorted(names):
            path = place / name
            try:
                self._entry(name, folder, path)
            except OSError as error:
                self._leave(path, reason_of(error))
        if self._seen >= _SEEN_MAX:
            self._leave(place, f"only {_SEEN_MAX} files and folders are looked at")

    def _entry(self, name: str, folder: int, path: PurePosixPath) -> None:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if str(path) == OWN:
            self._leave(path, "the name is Paddock's own")
        elif stat.S_ISDIR(info.st_mode):
            if len(path.parts) > _DEPTH_MAX:
                raise OSError(f"it is more than {_DEPTH_MAX} folders deep")
            with _opened(name, _FOLDER, folder) as below:
                self.folder(below, path)
        elif not stat.S_ISREG(info.st_mode):
            self._leave(path, "it is no ordinary file")
        elif self._given.get(str(path)) != _state(info):
            self._file(name, folder, path)

    def _file(self, name: str, folder: int, path: PurePosixPath) -> None:
        with _opened(name, _FILE, folder) as found:
            info = os.fstat(found)
            left = info.st_size if stat.S_ISREG(info.st_mode) else 0
            if self._bytes + left > _BYTES_MAX:
                raise OSError(f"a task's files are {_BYTES_MAX >> 20} MiB at most")
            self._bytes += left
            _copy(found, self._out / path, left)

    def _leave(self, path: PurePosixPath, why: str) -> None:
        self._left_count += 1
        if len(self._left) < _NOTES_MAX:
            self._left.append(escape(f"`{path}` was not taken: {why}"))


def _state(info: os.stat_result) -> tuple[int, int, int]:
    """Return what tells whether a file was changed: no program of a user sets the time of its last change."""
    return info.st_ino, info.st_size, info.st_ctime_ns


@contextmanager
def _opened(path: str | Path, flags: int, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy(found: int, place: Path, size: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("xb") as new:
        while size and (sent := os.sendfile(new.fileno(), found, None, size)):
            size -= sent
