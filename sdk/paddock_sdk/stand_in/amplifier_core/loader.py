"""How a plain process loads modules."""

from __future__ import annotations

from paddock_sdk.contract.models import ModuleInfo
from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.loading import (
    REASON_CODES as MODULE_FAILURE_REASONS,
)
from paddock_sdk.kernel.loading import (
    TYPE_TO_MOUNT_POINT,
    ModuleValidationError,
    module_failure_reason,
)

__all__ = [
    "MODULE_FAILURE_REASONS",
    "ModuleCoordinator",
    "ModuleInfo",
    "ModuleLoader",
    "ModuleValidationError",
    "TYPE_TO_MOUNT_POINT",
    "module_failure_reason",
]
