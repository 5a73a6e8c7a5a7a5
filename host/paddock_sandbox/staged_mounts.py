"""Attach mounts that another program staged in a mount namespace of its own, at places where it could be misled.

bubblewrap follows links on the way to a mount's place. Below a folder that a module may write to, such a link can be
there for just that moment. So bubblewrap mounts at flat places in a folder of its own what belongs below another mount,
and waits. A process with one thread then enters its namespaces and attaches each mount, without following a link.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Final

from paddock_sandbox import mounts, namespaces
from paddock_sandbox.profile import Mount

FOLDER: Final = "/.staged"
_POLL_SECONDS: Final = 0.0005  # the kernel tells nobody of a change of capabilities
_MOST_SECONDS: Final = 10.0
_CAPABILITIES: Final = "CapEff:"


def wait_until_staged(pid: int, capabilities: int) -> bool:
    """Wait until a process has given up all capabilities but these, a number as in `/proc`; return False if it ended.

    bubblewrap does so when everything is mounted, just before it waits.

    Raises:
        TimeoutError: it takes longer than ten seconds.
    """
    deadline = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
                held = next(line.split()[1] for line in lines if line.startswith(_CAPABILITIES))
        except (OSError, StopIteration):
            return False
        if int(held, 16) == capabilities:
            return True
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"its mounts were not staged within {_MOST_SECONDS:g} s")


def attach(pid: int, staged: Iterable[Mount]) -> None:
    """Enter the mount namespace of a process for good, and attach what is staged there at its targets, in order.

    The source of each mount is its place in `FOLDER`, which is unmounted in the end; a closed one needs none. A target
    has to be there.

    Raises:
        StepError: a target is missing, or a link is on the way to it.
        OSError: the namespace cannot be entered.
    """
    namespaces.enter_mounts(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    for mount in staged:
        if mount.closed:
            mounts.cover(mount)
        else:
            mounts.move(mount)
    mounts.detach(FOLDER)
