"""What a context has to have, as a test to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.structural import ContextStructuralTests
from paddock_sdk.validation.structural import ContextStructuralTests as TestContext

__all__ = ["ContextStructuralTests", "TestContext"]
