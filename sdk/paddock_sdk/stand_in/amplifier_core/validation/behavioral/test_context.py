"""What every context does, as tests to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.validation.behavioral import ContextBehaviorTests

__all__ = ["ContextBehaviorTests", "TestContext"]

# What pytest collects here: it goes by names.
TestContext = ContextBehaviorTests
