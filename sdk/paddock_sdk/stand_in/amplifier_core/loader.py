"""How a plain process loads modules."""

from paddock_sdk.contract.models import ModuleInfo as ModuleInfo
from paddock_sdk.contract.module_sources import ModuleLoadError as ModuleLoadError
from paddock_sdk.in_process.module_loader import ModuleLoader as ModuleLoader
from paddock_sdk.kernel.coordinator import ModuleCoordinator as ModuleCoordinator
from paddock_sdk.kernel.loading import MODULE_FAILURE_REASONS as MODULE_FAILURE_REASONS
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT as TYPE_TO_MOUNT_POINT
from paddock_sdk.kernel.loading import ModuleValidationError as ModuleValidationError
from paddock_sdk.kernel.loading import module_failure_reason as module_failure_reason

AmplifierModuleLoader = ModuleLoader
