"""Ask the kernel to change one attribute of the calling process, by prctl(2).

Each function is one request: it returns when the kernel agreed and raises OSError, named after the request, when it
did not. Knows nothing about why an attribute is wanted or in which order.
"""

from __future__ import annotations

import ctypes
import os

# From <linux/prctl.h>; the same numbers on every architecture.
_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVS = 38

# All five words are always given: prctl is variadic, and the kernel wants those it does not use to be zero.
_call = ctypes.CDLL(None, use_errno=True).prctl
_call.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
_call.restype = ctypes.c_int


def set_parent_death_signal(signal_number: int) -> None:
    """Have the kernel send this signal when the thread that forked the caller ends; an end already past sends none."""
    _prctl("PR_SET_PDEATHSIG", _SET_PDEATHSIG, signal_number)


def become_child_subreaper() -> None:
    """Adopt every descendant whose own parent ends, however often it forked or changed its session."""
    _prctl("PR_SET_CHILD_SUBREAPER", _SET_CHILD_SUBREAPER, 1)


def give_up_new_privileges() -> None:
    """Make set-user-ID bits and file capabilities worthless to the caller and all it will ever start."""
    _prctl("PR_SET_NO_NEW_PRIVS", _SET_NO_NEW_PRIVS, 1)


def _prctl(name: str, option: int, value: int) -> None:
    if _call(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
