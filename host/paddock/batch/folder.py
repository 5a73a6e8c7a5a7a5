"""A task's folder: the working directory of its session, made from the task's files, and what comes back from there.

Modules may leave anything in it. So it is read by descriptors that follow no link, and of what is there only ordinary
files are taken, up to bounds; the others are named. Files are written where only this process leads.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from paddock.batch.task import OWN
from paddock.errors import KindError
from paddock.text import escape, reason_of
from paddock.workers.scratch import PrivateFolder, open_to_owner

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEPTH_MAX: Final = 32
_FILES_MAX: Final = 10_000
_BYTES_MAX: Final = 1 << 30  # of all files of a task
_SEEN_MAX: Final = 50_000
_NOTES_MAX: Final = 20


class TaskFolder:
    """The folder of one attempt, at `path`; `remove` removes it. All of this blocks."""

    def __init__(self) -> None:
        self._folder = PrivateFolder()
        self.path = self._folder.path
        self._given: dict[str, tuple[int, int, int]] = {}  # the state of each file that was put there

    def fill(self, files: Mapping[str, str], base: Path) -> None:
        """Put files there, by their names; their paths are followed from `base` on without links.

        Raises:
            KindError: one is missing, or no ordinary file.
        """
        for name, path in files.items():
            self._put(name, path, base)

    def remove(self) -> None:
        """Remove the folder with all that modules left in it."""
        self._folder.remove()

    def _put(self, name: str, path: str, base: Path) -> None:
        place = self.path / name
        try:
            with opened_input(base, path) as source:
                place.parent.mkdir(parents=True, exist_ok=True)
                with open(place, "xb") as file:
                    shutil.copyfileobj(source, file)
                    os.fchmod(file.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode) & 0o700 | 0o600)
        except OSError as error:
            hint = "name an ordinary file there; a link, or a folder, is none"
            problem = f"`{path}`, the task's file `{name}`, cannot be read: {reason_of(error)}"
            raise KindError("TaskInputError", problem, hints=[hint]) from error
        self._given[name] = _state(place.lstat())

    def take(self, out: Path) -> list[str]:
        """Copy each new or changed file to `out`, and return for people what was not taken."""
        taking = _Taking(self._given)
        open_to_owner(self.path)
        top, into = os.open(self.path, _FOLDER), os.open(out, _FOLDER)
        try:
            taking.folder(top, into, PurePosixPath())
        finally:
            os.close(top)
            os.close(into)
        return taking.notes()


class _Taking:
    """One walk through a folder."""

    def __init__(self, given: Mapping[str, tuple[int, int, int]]) -> None:
        self._given = given
        self._files = self._bytes = self._seen = 0
        self._left: list[str] = []  # the first of what was not taken
        self._left_count = 0

    def notes(self) -> list[str]:
        more = self._left_count - len(self._left)
        return [*self._left, *([f"{more} more were not taken"] if more else [])]

    def folder(self, source: int, into: int, place: PurePosixPath) -> None:
        """Take the files of a folder, and of those below it, into another one."""
        for name in self._names(source):
            path = place / name
            if str(path) == OWN:
                self._leave(path, "the name is Paddock's own")
                continue
            try:
                info = os.stat(name, dir_fd=source, follow_symlinks=False)
                if stat.S_ISDIR(info.st_mode):
                    self._below(name, source, into, path)
                elif not stat.S_ISREG(info.st_mode):
                    self._leave(path, "it is no ordinary file")
                elif self._given.get(str(path)) != _state(info):
                    self._file(name, source, into, path, info.st_size)
            except OSError as error:
                self._leave(path, reason_of(error))

    def _names(self, source: int) -> list[str]:
        """Return the names in a folder, as far as the bound allows: a module may have made millions."""
        with os.scandir(source) as entries:
            found = [entry.name for entry in islice(entries, _SEEN_MAX - self._seen)]
        self._seen += len(found)
        if self._seen >= _SEEN_MAX:
            self._left_count += 1
            self._left.append(f"only {_SEEN_MAX} files and folders were looked at")
        return sorted(found)

    def _below(self, name: str, source: int, into: int, path: PurePosixPath) -> None:
        if len(path.parts) > _DEPTH_MAX:
            self._leave(path, f"it is more than {_DEPTH_MAX} folders deep")
            return
        with _descriptor(name, _FOLDER, source) as below:
            os.mkdir(name, dir_fd=into)
            with _descriptor(name, _FOLDER, into) as target:
                self.folder(below, target, path)
                is_empty = not os.listdir(target)
            if is_empty:
                os.rmdir(name, dir_fd=into)

    def _file(self, name: str, source: int, into: int, path: PurePosixPath, size: int) -> None:
        if self._files >= _FILES_MAX or self._bytes + size > _BYTES_MAX:
            self._leave(path, f"a task's files are {_FILES_MAX} and {_BYTES_MAX >> 20} MiB at most")
            return
        with _descriptor(name, _FILE, source) as found, _descriptor(name, _NEW, into) as new:
            info = os.fstat(found)
            left = info.st_size if stat.S_ISREG(info.st_mode) else 0
            while left and (sent := os.sendfile(new, found, None, left)):
                left -= sent
        self._files += 1
        self._bytes += size

    def _leave(self, path: PurePosixPath, why: str) -> None:
        self._left_count += 1
        if len(self._left) < _NOTES_MAX:
            self._left.append(escape(f"`{path}` was not taken: {why}"))


def _state(info: os.stat_result) -> tuple[int, int, int]:
    """Return what tells whether a file was changed: no program of a user sets the time of its last change."""
    return info.st_ino, info.st_size, info.st_ctime_ns


@contextmanager
def _descriptor(name: str, flags: int, folder: int) -> Iterator[int]:
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_input(base: Path, path: str) -> Iterator[BinaryIO]:
    """Open an ordinary file below a folder, to which no link leads.

    Raises:
        OSError: there is none.
    """
    *folders, last = PurePosixPath(path).parts
    with ExitStack() as stack:
        folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        for name in folders:
            folder = stack.enter_context(_descriptor(name, _FOLDER, folder))
        descriptor = os.open(last, _FILE, dir_fd=folder)
        file = stack.enter_context(os.fdopen(descriptor, "rb"))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", path)
        yield file
