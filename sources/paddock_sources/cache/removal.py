"""Take away a folder with all that is in it, also where nothing of it may be written."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder; what is gone already is no matter. Links are not followed.

    Raises:
        OSError: something cannot be removed.
    """
    folders: list[str] = []
    waiting = [os.fspath(path)]
    while waiting:  # not recursive: how deep it is was somebody else's choice
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
