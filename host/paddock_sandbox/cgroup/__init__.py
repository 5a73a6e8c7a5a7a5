"""Limit what a worker and all it starts may use, by the kernel's control groups, where this process may make them.

`CgroupHome.find` learns by doing where that is, on either version of control groups, as root and as an ordinary user;
the groups it then makes are limited, read, emptied and removed by plain files. Every error is an OSError that names the
file. Everything here waits for the kernel, bounded in time: not for the thread of an event loop.
"""

from paddock_sandbox.cgroup.group import (
    CONTROLLERS,
    Advice,
    Cgroup,
    CgroupPlace,
    CgroupProblem,
    CgroupReadings,
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
    "Controller",
    "enter",
]
