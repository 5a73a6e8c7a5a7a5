"""The folder in which Paddock keeps records of one user across sessions: `~/.local/state/paddock`, or as XDG has it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def state_folder(environ: Mapping[str, str] | None = None, *below: str) -> Path:
    """Return the user's state folder, without links, or a folder `below` it, made for this user alone.

    By default it is that of this process, else of the user with `environ`.

    Raises:
        OSError: it cannot be made, or it is somebody else's.
    """
    folder = state_path(os.environ if environ is None else environ)
    folder.parent.mkdir(parents=True, exist_ok=True)
    make_private(folder)
    folder = folder.resolve()
    for name in below:
        folder /= name
        make_private(folder)
    return folder


def state_path(environ: Mapping[str, str]) -> Path:
    """Return where the state folder of the user with `environ` is, as it is named: a link may be on the way."""
    base, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if os.path.isabs(base):
        return Path(base) / "paddock"
    return Path(home if os.path.isabs(home) else os.path.abspath(os.path.expanduser("~")), ".local/state/paddock")


def control_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the control sockets of the user's sessions, made for this user alone.

    It is `paddock` in the user's folder for what lasts until the machine ends, or else `run` in the state folder.

    Raises:
        OSError: it cannot be made, or it is somebody else's.
    """
    folder = _runtime_path(os.environ if environ is None else environ) or state_folder(environ) / "run"
    folder.mkdir(mode=0o700, exist_ok=True)
    make_private(folder)
    return folder.resolve()


def control_paths(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return where control sockets of the user with `environ` may be: each session has its own environment."""
    usual = Path(f"/run/user/{os.geteuid()}/paddock")
    return tuple(dict.fromkeys([_runtime_path(environ) or usual, usual, state_path(environ) / "run"]))


def _runtime_path(environ: Mapping[str, str]) -> Path | None:
    """Return the place in `XDG_RUNTIME_DIR`, if there is such a folder of this user's."""
    base = environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(base):
        with suppress(OSError):
            info = os.stat(base)
            if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid():
                return Path(base) / "paddock"
    return None


def make_private(folder: Path) -> None:
    """Deny others access to a folder of Paddock's, which is made if it is missing.

    Raises:
        OSError: it is none, or not ours.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    os.close(open_own(folder, os.O_RDONLY | os.O_DIRECTORY))


def open_own(path: str | Path, flags: int) -> int:
    """Return a descriptor of a file of Paddock's, to which others have no access; it serves as an `opener` of `open`.

    Raises:
        OSError: it is missing, a link, no ordinary file, or somebody else's; `strerror` says which.
    """
    # Not blocking: a fifo in its place would hold the host until somebody reads it.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        info = os.fstat(descriptor)
        if not (stat.S_ISREG(info.st_mode) or flags & os.O_DIRECTORY):
            raise PermissionError(errno.EPERM, "it is no ordinary file", str(path))
        if info.st_uid != os.geteuid():
            problem = f"it belongs to uid {info.st_uid}, and we are uid {os.geteuid()}"
            raise PermissionError(errno.EPERM, problem, str(path))
        if info.st_mode & 0o077:
            os.fchmod(descriptor, stat.S_IMODE(info.st_mode) & 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
