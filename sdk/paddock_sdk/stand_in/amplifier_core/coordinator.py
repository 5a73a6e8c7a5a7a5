"""What a module is given when it is mounted."""

from paddock_sdk.kernel.coordinator import ModuleCoordinator as ModuleCoordinator
