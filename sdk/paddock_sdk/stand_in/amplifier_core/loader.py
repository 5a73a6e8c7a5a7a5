"""How a plain process loads modules."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.models import ModuleInfo
from paddock_sdk.contract.module_sources import ModuleLoadError
from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.in_process.module_loader import ModuleLoader as AmplifierModuleLoader
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.loading import REASON_CODES as MODULE_FAILURE_REASONS
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT, ModuleValidationError, module_failure_reason

__all__ = [
    "ModuleInfo",
    "ModuleLoadError",
    "ModuleLoader",
    "AmplifierModuleLoader",
    "ModuleCoordinator",
    "MODULE_FAILURE_REASONS",
    "TYPE_TO_MOUNT_POINT",
    "ModuleValidationError",
    "module_failure_reason",
]
