"""The folder in which Paddock keeps records of one user across sessions: `~/.local/state/paddock`, or as XDG has it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the user's state folder, without links, made for this user alone.

    By default it is that of this process, else of the user with `environ`.

    Raises:
        OSError: it cannot be made, or it is somebody else's.
    """
    folder = state_path(os.environ if environ is None else environ)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    make_private(folder)
    return folder.resolve()


def state_path(environ: Mapping[str, str]) -> Path:
    """Return where the state folder of the user with `environ` is, as it is named: a link may be on the way."""
    base, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if os.path.isabs(base):
        return Path(base) / "paddock"
    return Path(home if os.path.isabs(home) else os.path.abspath(os.path.expanduser("~")), ".local/state/paddock")


def make_private(folder: Path) -> None:
    """Deny others access to a folder of Paddock's.

    Raises:
        OSError: it is none, or not ours.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        info = os.fstat(descriptor)
        if info.st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to uid {info.st_uid}, and we are uid {os.geteuid()}")
        if stat.S_IMODE(info.st_mode) & 0o077:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)
