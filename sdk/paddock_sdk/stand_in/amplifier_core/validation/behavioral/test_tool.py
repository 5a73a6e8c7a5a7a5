"""What every tool does, as tests to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.contract.models import ToolResult
from paddock_sdk.validation.behavioral import ToolBehaviorTests

__all__ = ["ToolResult", "ToolBehaviorTests", "TestTool"]

# What pytest collects here: it goes by names.
TestTool = ToolBehaviorTests
