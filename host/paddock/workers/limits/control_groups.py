"""Where this process can make control groups for the processes that it starts."""

from __future__ import annotations

from functools import cache

from paddock_sandbox.cgroup import CgroupHome


@cache
def find_groups() -> CgroupHome:
    """Find out, once for this process, where control groups can be made, and tidy up there after hosts that died."""
    home = CgroupHome.find()
    home.remove_stale()
    return home
