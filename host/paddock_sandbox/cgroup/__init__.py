"""Limit the resources of a worker and all it starts, by the kernel's control groups, where this process may make them.

`CgroupHome.find` finds such a place by trying, on either version of control groups, as root and as an ordinary user.
Its groups are limited, read, emptied and removed through plain files. Every error is an OSError that names the file.
All functions wait for the kernel, for a bounded time: do not call them in the thread of an event loop.
"""

from paddock_sandbox.cgroup.group import (
    CONTROLLERS,
    Advice,
    Cgroup,
    CgroupPlace,
    CgroupProblem,
    CgroupReadings,
    CgroupUse,
    Controller,
    enter,
)
from paddock_sandbox.cgroup.home import CgroupHome

__all__ = [
    "CONTROLLERS",
    "Advice",
    "Cgroup",
    "CgroupHome",
    "CgroupPlace",
    "CgroupProblem",
    "CgroupReadings",
    "CgroupUse",
    "Controller",
    "enter",
]
