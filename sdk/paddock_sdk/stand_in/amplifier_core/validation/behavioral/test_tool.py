"""What every tool does, as tests to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.validation.behavioral import ToolBehaviorTests
from paddock_sdk.validation.behavioral import ToolBehaviorTests as TestTool

__all__ = ["ToolResult", "ToolBehaviorTests", "TestTool"]
