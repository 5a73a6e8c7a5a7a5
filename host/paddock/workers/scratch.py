"""A private folder of the host for one session, and its removal, whatever modules made in it.

The host locks it for as long as it lives. So a folder without a lock belongs to a dead host: the next host removes what
a killed one left, without guessing from names or times.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

# With the machine in it: of a folder that several share over a network, each knows its own locks only.
_PREFIX: Final = f"paddock-{zlib.crc32(os.uname().nodename.encode()):08x}-"
_MODE: Final = 0o700
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # which takes no right to the folder itself


class PrivateFolder:
    """A new folder that no other user may look into; `path` is without links."""

    def __init__(self) -> None:
        """Make it, among the temporary files."""
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
            with suppress(FileNotFoundError):  # swept, in the moment before it was locked
                self._lock = os.open(self.path, _FOLDER)
                if _is_alone(self._lock, without_locks=True) and self.path.exists():
                    return
                os.close(self._lock)

    def remove(self) -> None:
        """Remove it with everything in it; log what cannot be removed."""
        try:
            remove_private_folder(self.path)
        finally:
            os.close(self._lock)


def sweep() -> None:
    """Remove folders among the temporary files that dead hosts of this user left."""
    folder = Path(tempfile.gettempdir())  # others may write there too
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(_PREFIX):
                _sweep(folder / name)


def _sweep(left: Path) -> None:
    # A step that fails here is done another time.
    with suppress(OSError):
        top = os.open(left, _FOLDER)
        try:
            facts = os.fstat(top)
            is_ours = facts.st_uid == os.geteuid() and stat.S_IMODE(facts.st_mode) == _MODE
            if is_ours and _is_alone(top, without_locks=False):
                _empty(top)
                os.rmdir(left)
        finally:
            os.close(top)


def _is_alone(folder: int, *, without_locks: bool) -> bool:
    """Lock a folder; return whether no one else has locked it, or `without_locks` where locks do not work."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: folders there are used, and never swept
        return without_locks
    return True


def remove_private_folder(folder: Path) -> None:
    """Remove the folder with everything in it; log what cannot be removed.

    Folders in it may be nested deeper than any path can say, and closed to their owner: each is brought up to the top,
    opened, and emptied there.
    """
    try:
        open_to_owner(folder)
        top = os.open(folder, _FOLDER)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(folder)
    except FileNotFoundError:
        pass  # another process was quicker
    except OSError as error:
        _log.warning("the folder %s cannot be removed: %s", folder, error)


def _empty(top: int) -> None:
    prefix = secrets.token_hex(8)
    names = (f"{prefix}-{number}" for number in count())
    while entries := os.listdir(top):
        for entry in entries:
            if not _unlink_or_open(entry, top):
                _bring_up(entry, top, names)
                os.rmdir(entry, dir_fd=top)


def _bring_up(entry: str, top: int, names: Iterator[str]) -> None:
    """Remove the files in a folder of the top, and move the folders in it to the top under new names."""
    folder = os.open(entry, _FOLDER, dir_fd=top)
    try:
        for child in os.listdir(folder):
            if not _unlink_or_open(child, folder):
                os.rename(child, next(names), src_dir_fd=folder, dst_dir_fd=top)
    finally:
        os.close(folder)


def _unlink_or_open(entry: str, folder: int) -> bool:
    """Remove a file, or open a folder to its owner, the host's user; return whether it is gone."""
    try:
        os.unlink(entry, dir_fd=folder)
    except IsADirectoryError:
        open_to_owner(entry, folder)
        return False
    return True


def open_to_owner(entry: str | Path, folder: int | None = None) -> None:
    """Let the owner into a folder, which a module may have closed; raise `OSError` if it is no folder any more."""
    found = os.open(entry, _HANDLE, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)  # the folder that was found, even if its name now belongs to another
    finally:
        os.close(found)
