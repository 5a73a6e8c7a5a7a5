"""Recognise failures that are the system's or the user's to mend, and not a defect of Paddock.

Code that foresees such a failure reports it itself, with more to say. This is for the rest: an error of the system that
arrives at the top of a command is never called a defect.
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Mapping
from typing import Final

from paddock.errors import KindError, PaddockError

_HINTS: Final[Mapping[int, str]] = {
    errno.EACCES: "see who may use it and the folders around it: `namei -l PATH`",
    errno.EPERM: "see who may use it and the folders around it: `namei -l PATH`",
    errno.ENOENT: "see whether it was moved, or removed meanwhile",
    errno.ENOTDIR: "a file is where a folder is needed: move it away",
    errno.EISDIR: "a folder is where a file is needed: move it away",
    errno.EEXIST: "something is where a new one is needed: move it away",
    errno.EROFS: "it is in a file system that is mounted read-only",
    errno.ENOSPC: "make room there (`df -h`, `df -i`), or set TMPDIR or PADDOCK_CACHE_DIR to another place",
    errno.EDQUOT: "your share of that file system is used up (`quota`)",
    errno.EFBIG: "allow larger files: `ulimit -f`, or `LimitFSIZE=` in a unit",
    errno.EMFILE: "allow more open files: `ulimit -n`, or `LimitNOFILE=` in a unit",
    errno.ENFILE: "the machine has as many open files as it allows: `sysctl fs.file-max`",
    errno.EAGAIN: "raise the limit of processes: `ulimit -u`, `LimitNPROC=` or `TasksMax=` in a unit",
    errno.ENOMEM: "free some memory, or allow more: `ulimit -v`, or `MemoryMax=` in a unit",
    errno.ELOOP: "its symbolic links lead in a circle: mend them",
    errno.ENAMETOOLONG: "use a shorter path",
    errno.EIO: "the device or network file system fails: see the kernel's messages (`dmesg`)",
    errno.ESTALE: "the network file system has lost it: mount it again",
    errno.ETXTBSY: "a program that runs is being replaced: try again",
    errno.EBUSY: "something else uses it: try again",
}
_LINK_LOOP: Final = "Symlink loop from"  # pathlib's, which is no OSError

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
            hints=[
                "raise the limit of processes: `ulimit -u`, `LimitNPROC=` or `TasksMax=` in a unit",
                *(
                    ["or that of memory, which threads take too: `ulimit -v`, `LimitAS=` in a unit"]
                    if _is_memory_limited()
                    else []
                ),
            ],
        )
    if isinstance(error, BaseExceptionGroup):
        known = [of_system(one) for one in error.exceptions]
        return known[0] if all(isinstance(one, PaddockError) for one in known) else error
    number = None if hasattr(error, "remote_type") else _number_of(error)  # a module's own is no refusal of ours
    if number is None:
        return error
    path = getattr(error, "filename", None)
    where = f"`{os.fsdecode(path)}`: " if isinstance(path, (str, bytes)) else "the system refused: "
    return KindError("SystemRefusedError", f"{where}{os.strerror(number)}", hints=[_HINTS[number]])


def _number_of(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno if error.errno in _HINTS else None
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    return errno.ELOOP if isinstance(error, RuntimeError) and str(error).startswith(_LINK_LOOP) else None


def _is_memory_limited() -> bool:
    """Return whether the memory of this process is limited."""
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _has_working_dir() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True
