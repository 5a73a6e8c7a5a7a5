"""What every tool does, as tests to inherit from and to run with `--module-path`."""

from paddock_sdk.contract.models import ToolResult as ToolResult
from paddock_sdk.validation.behavioral import ToolBehaviorTests as ToolBehaviorTests

TestTool = ToolBehaviorTests
