"""What a module is given when it is mounted."""

from __future__ import annotations

from paddock_sdk.kernel.coordinator import ModuleCoordinator

__all__ = ["ModuleCoordinator"]
