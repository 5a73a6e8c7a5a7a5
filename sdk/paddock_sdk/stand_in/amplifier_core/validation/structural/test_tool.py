"""What a tool has to have, as a test to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.structural import ToolStructuralTests
from paddock_sdk.validation.structural import ToolStructuralTests as TestTool

__all__ = ["ToolStructuralTests", "TestTool"]
