"""The packages that modules depend on: requirements, chosen versions, and the folders with the packages.

Nothing of a package is executed: no build, no setup script, no import. The names of this package are imported when they
are first used: a module whose packages are all in the cache needs little of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paddock_sources.environment.builder import install, resolve
    from paddock_sources.environment.index import Index
    from paddock_sources.environment.installed import InstalledDistribution, InstalledDistributions, InstalledModule
    from paddock_sources.environment.interpreter import Interpreter
    from paddock_sources.environment.locked import LockedDistribution, environment_digest, without_preloaded
    from paddock_sources.environment.metadata import Metadata, distribution_metadata
    from paddock_sources.environment.requirements import DirectRequirement, Requirements

__all__ = [
    "DirectRequirement",
    "Requirements",
    "Index",
    "Interpreter",
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
    "builder": ("resolve", "install"),
    "index": ("Index",),
    "installed": ("InstalledDistribution", "InstalledDistributions", "InstalledModule"),
    "interpreter": ("Interpreter",),
    "locked": ("LockedDistribution", "environment_digest", "without_preloaded"),
    "metadata": ("Metadata", "distribution_metadata"),
    "requirements": ("DirectRequirement", "Requirements"),
}


def __getattr__(name: str) -> Any:
    for part, names in _PARTS.items():
        if name in names:
            return getattr(import_module(f".{part}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
