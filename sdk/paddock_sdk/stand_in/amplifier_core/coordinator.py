"""What a module is given when it is mounted."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.kernel.coordinator import ModuleCoordinator

__all__ = ["ModuleCoordinator"]
