"""Ask the kernel about, or to change, one attribute of the calling process, by prctl(2).

Each function is one request: it returns when the kernel agreed and raises OSError, named after the request, when it did
not. This file does not know why an attribute is wanted or in which order.
"""

from __future__ import annotations

import os

from paddock_sandbox.syscalls import call

# From <linux/prctl.h>; the same numbers on every architecture.
_SET_PDEATHSIG = 1
_SET_DUMPABLE = 4
_SET_NAME = 15
_CAPBSET_READ = 23
_CAPBSET_DROP = 24
_GET_SECUREBITS = 27
_SET_SECUREBITS = 28
_SET_CHILD_SUBREAPER = 36
_GET_SECCOMP = 21
_SET_NO_NEW_PRIVS = 38
_GET_NO_NEW_PRIVS = 39
_CAP_AMBIENT = 47
_CAP_AMBIENT_IS_SET = 1
_CAP_AMBIENT_CLEAR_ALL = 4


def set_parent_death_signal(signal_number: int) -> None:
    """Make the kernel send this signal when the thread that forked the caller ends; an earlier end sends none."""
    _prctl("PR_SET_PDEATHSIG", _SET_PDEATHSIG, signal_number)


def become_child_subreaper() -> None:
    """Adopt every descendant whose own parent ends, however often it forked or changed its session."""
    _prctl("PR_SET_CHILD_SUBREAPER", _SET_CHILD_SUBREAPER, 1)


def set_name(name: bytes) -> None:
    """Set the short name of the calling thread; the kernel keeps 15 bytes of it."""
    _prctl("PR_SET_NAME", _SET_NAME, name)


def give_up_new_privileges() -> None:
    """Make set-user-ID bits and file capabilities worthless to the caller and all it will ever start."""
    _prctl("PR_SET_NO_NEW_PRIVS", _SET_NO_NEW_PRIVS, 1)


def is_no_new_privs() -> bool:
    """Return whether the caller has given up new privileges."""
    return _prctl("PR_GET_NO_NEW_PRIVS", _GET_NO_NEW_PRIVS) == 1


def seccomp_mode() -> int:
    """Return which filtering of system calls the caller is under: 0 none, 2 a filter."""
    return _prctl("PR_GET_SECCOMP", _GET_SECCOMP)


def set_dumpable(dumpable: bool) -> None:
    """Allow or forbid processes of the same user to trace the caller and read its memory.

    The kernel takes it away when credentials change, and gives it back at an exec of a readable program.
    """
    _prctl("PR_SET_DUMPABLE", _SET_DUMPABLE, dumpable)


def securebits() -> int:
    """Return the flags that govern how user ids and capabilities affect one another."""
    return _prctl("PR_GET_SECUREBITS", _GET_SECUREBITS)


def set_securebits(bits: int) -> None:
    """Replace those flags; needs CAP_SETPCAP, and one that is locked stays as it is."""
    _prctl("PR_SET_SECUREBITS", _SET_SECUREBITS, bits)


def in_bounding_set(capability: int) -> bool:
    """Return whether an exec can still give this capability; EINVAL when the kernel has none of this number."""
    return _prctl("PR_CAPBSET_READ", _CAPBSET_READ, capability) == 1


def drop_from_bounding_set(capability: int) -> None:
    """Make sure no exec gives this capability ever again; needs CAP_SETPCAP."""
    _prctl("PR_CAPBSET_DROP", _CAPBSET_DROP, capability)


def in_ambient_set(capability: int) -> bool:
    """Return whether an ordinary exec keeps this capability; EINVAL when the kernel has none of this number."""
    return _prctl("PR_CAP_AMBIENT_IS_SET", _CAP_AMBIENT, _CAP_AMBIENT_IS_SET, capability) == 1


def clear_ambient_set() -> None:
    """Make an ordinary exec keep no capability."""
    _prctl("PR_CAP_AMBIENT_CLEAR_ALL", _CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL)


def _prctl(name: str, option: int, first: int | bytes = 0, second: int = 0) -> int:
    try:
        return call("prctl", option, first, second, 0, 0)  # the kernel requires unused words to be zero
    except OSError as error:
        raise OSError(error.errno, f"{name}: {os.strerror(error.errno or 0)}") from None
