"""How a plain process loads modules."""

from __future__ import annotations

from paddock_sdk.in_process.module_loader import ModuleLoader
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT, ModuleValidationError, module_failure_reason

__all__ = ["TYPE_TO_MOUNT_POINT", "ModuleLoader", "ModuleValidationError", "module_failure_reason"]
