"""Recognise failures that are the system's or the user's to mend, and not a defect of Paddock."""

from __future__ import annotations

import os

from paddock.errors import KindError

_NO_HOME = ("could not determine the home directory", "Could not determine home directory")
_NO_THREAD = "can't start new thread"


def of_system(error: BaseException) -> BaseException:
    """Return an error that names the system's fault, if `error` is known to be one; else `error` itself."""
    if isinstance(error, FileNotFoundError) and error.filename is None and not _has_working_dir():
        return KindError(
            "NoWorkingDirError",
            "the working directory is gone",
            hints=["go to a folder that exists: `cd` to it, or `WorkingDirectory=` in a unit"],
        )
    if isinstance(error, RuntimeError) and str(error).startswith(_NO_HOME):
        return KindError(
            "NoHomeError",
            "no home folder is known: HOME is not set, and this user has none",
            hints=["set HOME to a folder of this user's, as with `Environment=HOME=/var/lib/NAME` in a unit"],
        )
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return KindError(
            "NoRoomError",
            "the system allows this user no more threads",
            hints=["raise the limit of processes: `ulimit -u`, `LimitNPROC=` or `TasksMax=` in a unit"],
        )
    return error


def _has_working_dir() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True
