"""Open descriptors: those that are there already, and some that are closed after use.

A module's process performs many attacks: a descriptor that one leaves open would be found by another.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterator

from .way import RefusedActError

_HIGHEST = 4096


def descriptors(is_wanted: Callable[[int], bool]) -> Iterator[int]:
    """Yield the open descriptors of files whose mode is wanted, without the standard ones."""
    for number in range(3, _HIGHEST):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        if is_wanted(mode):
            yield number


def inherited(is_wanted: Callable[[int], bool], use: Callable[[int], object]) -> str:
    """Return what the first usable descriptor of some sort gives.

    Raises:
        RefusedError: there is none.
    """
    for number in descriptors(is_wanted):
        with contextlib.suppress(OSError):
            return f"descriptor {number}: {use(number)}"
    raise RefusedActError("ENOENT", "none is open")


def inherited_listener() -> str:
    """Return the address of a listening socket among them; raises as `inherited`."""

    def address(number: int) -> str:
        with socket.socket(fileno=os.dup(number)) as one:
            if not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                raise OSError("does not listen")
            return f"listens at {one.getsockname()}"

    return inherited(stat.S_ISSOCK, address)


@contextlib.contextmanager
def held(*numbers: int) -> Iterator[int]:
    """Give the first of some descriptors, and close all of them in the end."""
    try:
        yield numbers[0]
    finally:
        for number in numbers:
            os.close(number)


def opened(path: str, flags: int = os.O_RDONLY) -> contextlib.AbstractContextManager[int]:
    """Open a file until the context is left."""
    return held(os.open(path, flags))
