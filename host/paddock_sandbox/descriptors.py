"""Close inherited descriptors: one that stays open is access that was not granted."""

from __future__ import annotations

import os

from paddock_sandbox.syscalls import call

_HIGHEST_FD = 2**31 - 1


def close_all_but(*kept: int) -> None:
    """Close every descriptor of the process except these."""
    lowest = 0
    for fd in (*sorted(kept), _HIGHEST_FD):
        if fd > lowest:
            _close(lowest, fd - 1)
        lowest = fd + 1


def _close(first: int, last: int) -> None:
    try:
        call("close_range", first, last, 0)
    except OSError:  # kernels before Linux 5.9 have no such call
        for fd in map(int, os.listdir("/proc/self/fd")):
            if first <= fd <= last:
                os.closerange(fd, fd + 1)  # one, without minding that the listing's own descriptor is gone already
