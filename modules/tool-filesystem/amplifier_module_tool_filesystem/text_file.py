"""Read a regular file within a size, and replace a file in one step. Knows nothing of what is allowed."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

from .failure import Failure

# Links were resolved before: one that appears here afterwards is refused. A pipe without a writer must not block.
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_OLD_FLAGS = os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)

# A file may be writable where its folder is not, and a file mounted on its own cannot be replaced.
_NOT_REPLACEABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)


def read(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        Failure: it is a folder or device, or larger than `max_bytes`.
        OSError: it cannot be opened or read.
    """
    descriptor = os.open(path, _READ_FLAGS)
    with open(descriptor, "rb") as file:
        _require_regular(path, os.fstat(descriptor))
        data = file.read(max_bytes + 1)  # not trusting the size it reports: it may grow while being read
    if len(data) > max_bytes:
        raise Failure("too_large", f"`{path}` is larger than the {max_bytes} bytes that may be read.")
    return data


def replace(path: Path, data: bytes) -> None:
    """Make the file hold the data, keeping its mode; make missing folders.

    Raises:
        Failure: the path is a folder or device.
        OSError: it cannot be written; an existing file then has its old content.
    """
    try:
        existing: os.stat_result | None = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        existing = None
    if existing is not None:
        _require_regular(path, existing)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _swap_in(path, data, None if existing is None else stat.S_IMODE(existing.st_mode))
    except OSError as error:
        if existing is None or error.errno not in _NOT_REPLACEABLE:
            raise
        _overwrite(path, data)


def _swap_in(path: Path, data: bytes, mode: int | None) -> None:
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, _NEW_FLAGS, 0o666)  # less the umask, as for any new file
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _overwrite(path: Path, data: bytes) -> None:
    with open(os.open(path, _OLD_FLAGS), "wb") as file:
        file.write(data)


def _require_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise Failure("not_a_file", f"`{path}` is a folder, not a file.")
    if not stat.S_ISREG(status.st_mode):
        raise Failure("not_a_file", f"`{path}` is not a regular file.")
