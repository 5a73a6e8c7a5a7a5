"""Close inherited descriptors: one that stays open is access that was not granted."""

from __future__ import annotations

import ctypes
import os

_HIGHEST_FD = 2**31 - 1

# Missing from C libraries older than the system call (Linux 5.9).
_close_range = getattr(ctypes.CDLL(None), "close_range", None)
if _close_range is not None:
    _close_range.argtypes = (ctypes.c_uint, ctypes.c_uint, ctypes.c_int)


def close_all_but(*kept: int) -> None:
    """Close every descriptor of the process except these."""
    lowest = 0
    for fd in (*sorted(kept), _HIGHEST_FD):
        if fd > lowest:
            _close(lowest, fd - 1)
        lowest = fd + 1


def _close(first: int, last: int) -> None:
    if _close_range is not None and _close_range(first, last, 0) == 0:
        return
    for fd in map(int, os.listdir("/proc/self/fd")):
        if first <= fd <= last:
            os.closerange(fd, fd + 1)  # one, without minding that the listing's own descriptor is gone already
