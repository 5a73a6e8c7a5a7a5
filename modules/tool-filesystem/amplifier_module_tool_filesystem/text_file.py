"""Read a regular file within a size, and replace a file in one step. This file does not know what is allowed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from .failure import Failure

# Links were resolved before: one that appears here afterwards is refused. A pipe without a writer must not block.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_OLD_FLAGS = os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

# A file may be writable where its folder is not, and a file mounted on its own cannot be replaced.
_NOT_REPLACEABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)


@dataclass(frozen=True, slots=True)
class Version:
    """One state of one file: any write to it, and any other file under its name, is another version."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Version:
        """Return the version that a file's status describes."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def read(path: Path, max_bytes: int) -> tuple[bytes, Version]:
    """Return the content of a regular file, and the version that it is of.

    Raises:
        Failure: it is a folder or device, or larger than `max_bytes`.
        OSError: it cannot be opened or read.
    """
    descriptor = os.open(path, _READ_FLAGS)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)  # before the content: a write in between makes it an older version
        _require_regular(path, status)
        data = file.read(max_bytes + 1)  # not trusting the size it reports: it may grow while being read
    if len(data) > max_bytes:
        raise Failure(
            "too_large", f"`{path}` is larger than the {max_bytes} bytes that may be read; search it for what you need."
        )
    return data, Version.of(status)


def replace(path: Path, data: bytes, expected: Version | None = None) -> None:
    """Make the file hold the data, keeping its mode; make missing folders.

    With `expected`, only that version is replaced. It is looked at last before the exchange; a write between these two
    system calls goes unnoticed.

    Raises:
        Failure: the path is a folder or device, or the file is of another version than `expected`.
        OSError: it cannot be written; an existing file then has its old content.
    """
    _require_version(path, expected)
    try:
        existing: os.stat_result | None = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        existing = None
    if existing is not None:
        _require_regular(path, existing)
    elif expected is None:
        missing = [folder for folder in path.parents if not folder.is_dir()]
        for folder in reversed(missing):  # one by one: folders nest deeper than calls may
            folder.mkdir(exist_ok=True)
    if existing is not None and not os.access(path.parent, os.W_OK):  # to try would be reported as refused
        return _overwrite(path, data)
    try:
        _swap_in(path, data, None if existing is None else stat.S_IMODE(existing.st_mode), expected)
    except OSError as error:
        if existing is None or error.errno not in _NOT_REPLACEABLE:
            raise
        _require_version(path, expected)
        _overwrite(path, data)


def _swap_in(path: Path, data: bytes, mode: int | None, expected: Version | None) -> None:
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, _NEW_FLAGS, 0o666)  # less the umask, as for any new file
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        _require_version(path, expected)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _require_version(path: Path, expected: Version | None) -> None:
    if expected is None:
        return
    try:
        is_same = Version.of(os.stat(path, follow_symlinks=False)) == expected
    except FileNotFoundError:
        is_same = False
    if not is_same:
        raise Failure("changed", f"`{path}` was changed meanwhile, and is left as it is now: read it again.")


def _overwrite(path: Path, data: bytes) -> None:
    with open(os.open(path, _OLD_FLAGS), "wb") as file:
        _require_regular(path, os.fstat(file.fileno()))  # a pipe or device may have taken its place
        file.truncate()
        file.write(data)


def _require_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise Failure("not_a_file", f"`{path}` is a folder, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise Failure("not_a_file", f"`{path}` is not a regular file.")
