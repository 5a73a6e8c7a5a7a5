"""What a hook has to have, as a test to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.structural import HookStructuralTests
from paddock_sdk.validation.structural import HookStructuralTests as TestHook

__all__ = ["HookStructuralTests", "TestHook"]
