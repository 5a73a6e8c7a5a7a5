"""Change a lock file for Paddock's own commands and sessions, and renew the acceptances that depend on it.

Plans of the folder that were accepted with the former pins stay accepted with the new ones. A pin that another program
moved is not accepted by that. Where the acceptance cannot be renewed, the lock file is written all the same, and the
operator is asked the next time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from paddock.errors import PolicyFileError
from paddock.policy.files.grants import GrantsFile, GrantsNotKeptError
from paddock.policy.pins import MovedPin, Pin
from paddock_sources.lock.lock_file import LockFile

_log = logging.getLogger(__name__)


def update_lock(path: Path, change: Callable[[LockFile], LockFile], environ: Mapping[str, str]) -> LockFile:
    """Apply `change` to the present content of the file, write it and return it; blocks.

    Raises:
        LockFileError: the file cannot be trusted or understood, or written.
    """
    return LockFile.update(path, change, on_write=partial(_renew, path.parent, environ))


def _renew(folder: Path, environ: Mapping[str, str], before: LockFile, after: LockFile) -> None:
    moved = []
    for locked in after.modules:
        old = before.get(locked.source)
        if old != locked:
            moved.append(MovedPin(locked.source, None if old is None else Pin.of(old), Pin.of(locked)))
    if not moved:
        return
    try:
        GrantsFile.of_user(environ).renew_pins(folder, moved)
    except (GrantsNotKeptError, PolicyFileError) as error:
        said = error.paddock_statement()
        _log.warning("what was locked is not accepted with the plan, which is asked about next time: %s", said)
