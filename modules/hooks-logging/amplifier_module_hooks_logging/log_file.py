"""Append lines to a file, and go on in a new one when it is large.

Every line is one write of its own: the log survives a crash of the process, and sessions may share a file. The earlier
files are `<name>.1`, the latest, to `<name>.<n>`; the oldest beyond that is removed. Only its owner can read a file
made here, for conversations are private.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class LogFile:
    """An append-only file of at most `max_bytes` unless one line has more, opened when needed; `max_files` in all."""

    def __init__(self, max_bytes: int, max_files: int) -> None:
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._descriptor: int | None = None
        self._is_torn = False  # a line was written in part

    def append(self, path: Path, line: bytes) -> OSError | None:
        """Write one line; return the reason why a full file could not be renamed, in which case it grows.

        Raises:
            OSError: the file cannot be opened or written; the next line tries again.
        """
        descriptor = self.open(path)
        problem = None
        if os.fstat(descriptor).st_size + len(line) > self._max_bytes:
            try:
                descriptor = self._rotated(path, descriptor)
            except OSError as error:
                problem = error
                descriptor = self.open(path)
        if self._is_torn:
            line = b"\n" + line
        try:
            self._is_torn = True
            while line:  # a nearly full disk takes part of a line
                line = line[os.write(descriptor, line) :]
            self._is_torn = False
        except OSError:
            self._release()
            raise
        return problem

    def close(self) -> None:
        """Sync the file to the disk and close it.

        Raises:
            OSError: the disk refused; the file is closed anyway.
        """
        if self._descriptor is None:
            return
        try:
            os.fsync(self._descriptor)
        finally:
            self._release()

    def open(self, path: Path) -> int:
        """Return the file at `path`, which is made where there is none; another session may have put it aside.

        Raises:
            OSError: it cannot be opened.
        """
        if self._descriptor is not None and not _is_at(path, self._descriptor):
            self._release()
        if self._descriptor is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, _FLAGS, 0o600)
        return self._descriptor

    def _rotated(self, path: Path, descriptor: int) -> int:
        """Rename the file and return a new one; if several sessions do so at once, only one renames it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return descriptor  # another session is at it; the next line finds the new file
        try:
            if os.fstat(descriptor).st_size and _is_at(path, descriptor):
                self._shift(path)
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        return self.open(path)

    def _shift(self, path: Path) -> None:
        names = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, self._max_files))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
        if len(names) == 1:
            path.unlink()

    def _release(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)


def is_temporary(path: Path, working_dir: Path) -> bool:
    """Return whether a file is deleted with this process: in a sandbox, the home is the folder for temporary files.

    If the working directory itself is in that folder, as in a test, nothing is meant to outlive the process.
    """
    home = Path.home()
    if home != Path(tempfile.gettempdir()) or not home.is_mount():
        return False
    device = home.stat().st_dev
    nearest = next(place for place in (path, *path.parents) if place.exists())
    return nearest.stat().st_dev == device and not (working_dir.exists() and working_dir.stat().st_dev == device)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
