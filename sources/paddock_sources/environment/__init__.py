"""The packages that modules depend on: what is asked for, which versions that comes to, and the folders that have them.

Nothing of a package is executed on the way: no build, no setup script, no import.
"""

from __future__ import annotations

from .builder import install, installed, resolve
from .index import Index
from .installed import InstalledDistribution, InstalledDistributions, InstalledModule
from .installer import Installer, find_installer
from .interpreter import Interpreter
from .locked import LockedDistribution, environment_digest, without_preloaded
from .metadata import Metadata, distribution_metadata
from .requirements import PROVIDED, DirectRequirement, Requirements

__all__ = [
    "PROVIDED",
    "DirectRequirement",
    "Requirements",
    "Index",
    "Interpreter",
    "Installer",
    "find_installer",
    "LockedDistribution",
    "environment_digest",
    "without_preloaded",
    "resolve",
    "install",
    "installed",
    "Metadata",
    "distribution_metadata",
    "InstalledDistribution",
    "InstalledDistributions",
    "InstalledModule",
]
