"""Decide what a module may do and use: a plan entry turned into a profile and limits, or refused with place and fix.

Nothing is started or changed here, and nothing decided by what a module says of itself.
"""

from __future__ import annotations

from paddock.policy.floor import FLOOR, Floor
from paddock.policy.levels import choose_level, guarantees_missing

from .asked_grant import Given
from .confinement import Confinement, confine
from .decision import Asked, Decision, Trust
from .enforcement import Enforcement, enforcement, require_enforced, unenforced
from .environment import environment_of
from .evaluation import Situation, evaluate, refuse_sources
from .grants import Grants
from .guarded_paths import GuardedPaths
from .limits import ResourceLimits
from .machine import Machine
from .owned_file import read_owned
from .owner import Owner
from .policy import Policy, user_config_folder
from .policy_file import PolicyFile
from .remedies import cgroup_remedy, proc_remedy, remedy
from .rule import Consulted, Place, Rule
from .runtime_paths import RuntimePaths
from .watchlist import GuardedChange, Watchlist, WatchReport

__all__ = [
    "evaluate",
    "Situation",
    "Asked",
    "Given",
    "Trust",
    "Decision",
    "refuse_sources",
    "Policy",
    "PolicyFile",
    "user_config_folder",
    "read_owned",
    "Rule",
    "Place",
    "Consulted",
    "confine",
    "Confinement",
    "RuntimePaths",
    "Owner",
    "Grants",
    "environment_of",
    "ResourceLimits",
    "Enforcement",
    "enforcement",
    "unenforced",
    "require_enforced",
    "choose_level",
    "guarantees_missing",
    "FLOOR",
    "Floor",
    "Machine",
    "remedy",
    "cgroup_remedy",
    "proc_remedy",
    "GuardedPaths",
    "Watchlist",
    "WatchReport",
    "GuardedChange",
]
