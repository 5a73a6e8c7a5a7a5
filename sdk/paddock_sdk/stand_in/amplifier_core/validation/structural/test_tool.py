"""What a tool has to have, as a test to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.validation.structural import ToolStructuralTests

__all__ = ["ToolStructuralTests", "TestTool"]

# What pytest collects here: it goes by names.
TestTool = ToolStructuralTests
