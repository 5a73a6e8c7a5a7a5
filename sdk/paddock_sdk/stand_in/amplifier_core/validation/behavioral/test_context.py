"""What every context does, as tests to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.behavioral import ContextBehaviorTests
from paddock_sdk.validation.behavioral import ContextBehaviorTests as TestContext

__all__ = ["ContextBehaviorTests", "TestContext"]
