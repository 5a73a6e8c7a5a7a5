"""Where a module's code is."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.module_sources import (
    FileSystemModuleSource,
    ModuleLoadError,
    ModuleNotFoundError,
    ModuleSource,
    ModuleSourceResolver,
)

__all__ = ["FileSystemModuleSource", "ModuleLoadError", "ModuleNotFoundError", "ModuleSource", "ModuleSourceResolver"]
