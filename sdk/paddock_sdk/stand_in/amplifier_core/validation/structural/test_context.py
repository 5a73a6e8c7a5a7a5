"""What a context has to have, as a test to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.validation.structural import ContextStructuralTests

__all__ = ["ContextStructuralTests", "TestContext"]

# What pytest collects here: it goes by names.
TestContext = ContextStructuralTests
