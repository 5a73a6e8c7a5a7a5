"""The packages that modules depend on: what is asked for, which versions that comes to, and the folders that have them.

Nothing of a package is executed on the way: no build, no setup script, no import. What is named here is imported when
it is used: a module whose packages are all there needs little of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .builder import find_installer, install, resolve
    from .index import Index
    from .installed import InstalledDistribution, InstalledDistributions, InstalledModule
    from .installer import Installer
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
    "Metadata",
    "distribution_metadata",
    "InstalledDistribution",
    "InstalledDistributions",
    "InstalledModule",
]

_PARTS = {
    "builder": ("resolve", "install", "find_installer"),
    "index": ("Index",),
    "installed": ("InstalledDistribution", "InstalledDistributions", "InstalledModule"),
    "installer": ("Installer",),
    "interpreter": ("Interpreter",),
    "locked": ("LockedDistribution", "environment_digest", "without_preloaded"),
    "metadata": ("Metadata", "distribution_metadata"),
    "requirements": ("PROVIDED", "DirectRequirement", "Requirements"),
}


def __getattr__(name: str) -> Any:
    for part, names in _PARTS.items():
        if name in names:
            return getattr(import_module(f".{part}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
