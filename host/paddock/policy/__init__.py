"""Decide what a module may do and use: a plan entry turned into a profile and limits, or refused with place and fix.

Nothing is started or changed here, and nothing decided by what a module says of itself.
"""

from __future__ import annotations

from .confinement import Confinement, confine
from .enforcement import Enforcement, enforcement, require_enforced, unenforced
from .environment import environment_of
from .grants import Grants
from .guarded_paths import GuardedPaths
from .levels import FLOOR, choose_level, guarantees_missing
from .limits import ResourceLimits
from .machine import Machine
from .owner import Owner
from .presets import PRESETS, grants_of
from .remedies import cgroup_remedy, proc_remedy, remedy
from .runtime_paths import RuntimePaths
from .unsupported import require_supported
from .watchlist import GuardedChange, Watchlist, WatchReport

__all__ = [
    "confine",
    "Confinement",
    "RuntimePaths",
    "Owner",
    "Grants",
    "grants_of",
    "PRESETS",
    "environment_of",
    "ResourceLimits",
    "Enforcement",
    "enforcement",
    "unenforced",
    "require_enforced",
    "choose_level",
    "guarantees_missing",
    "FLOOR",
    "require_supported",
    "Machine",
    "remedy",
    "cgroup_remedy",
    "proc_remedy",
    "GuardedPaths",
    "Watchlist",
    "WatchReport",
    "GuardedChange",
]
