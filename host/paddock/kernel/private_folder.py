"""A folder of the host's own for one session, and its end, whatever modules made in it."""

from __future__ import annotations

import logging
import os
import secrets
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def make_private_folder() -> Path:
    """Return a new folder that nobody else may look into, by a path without links."""
    return Path(tempfile.mkdtemp(prefix="paddock-")).resolve()


def remove_private_folder(folder: Path) -> None:
    """Remove the folder with everything in it; what cannot be removed is logged.

    Folders in it may be nested deeper than any path can say, and closed to their owner: each is brought up to the top,
    opened, and emptied there.
    """
    try:
        top = os.open(folder, _FOLDER)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(folder)
    except FileNotFoundError:
        pass  # somebody else was quicker
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
    """Remove what is no folder, or open a folder to its owner, which is us; return whether it is gone."""
    try:
        os.unlink(entry, dir_fd=folder)
    except IsADirectoryError:
        os.chmod(entry, 0o700, dir_fd=folder)
        return False
    return True
