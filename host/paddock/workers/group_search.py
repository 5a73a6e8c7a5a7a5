"""Where this process can make control groups for workers: searched once, at the first use or before it.

The search moves a process into a group, for which the kernel takes some 30 ms. A command has it do so while the command
loads itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from paddock_sandbox.cgroup import CgroupHome

_searching = threading.Lock()


def find_groups() -> CgroupHome:
    """Return where control groups can be made; the first call finds out, and tidies up there after dead hosts."""
    with _searching:
        return _found()


@contextmanager
def searching() -> Iterator[None]:
    """Search in a thread while the body runs; at the end, wait until it is done, so that it leaves no group behind."""
    search = threading.Thread(target=find_groups, name="paddock groups")
    search.start()
    try:
        yield
    finally:
        search.join()  # each step is a call of the system, and none waits for another process but to end it


@cache
def _found() -> CgroupHome:
    home = CgroupHome.find()
    home.remove_stale()
    return home
