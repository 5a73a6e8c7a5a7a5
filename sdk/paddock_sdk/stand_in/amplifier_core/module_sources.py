"""Where a module's code is."""

from __future__ import annotations

from paddock_sdk.contract.module_sources import (
    FileSystemModuleSource,
    ModuleLoadError,
    ModuleNotFoundError,
    ModuleSource,
    ModuleSourceResolver,
)

__all__ = ["FileSystemModuleSource", "ModuleLoadError", "ModuleNotFoundError", "ModuleSource", "ModuleSourceResolver"]
