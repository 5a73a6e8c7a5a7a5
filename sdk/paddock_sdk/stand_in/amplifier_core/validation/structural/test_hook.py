"""What a hook has to have, as a test to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.validation.structural import HookStructuralTests

__all__ = ["HookStructuralTests", "TestHook"]

# What pytest collects here: it goes by names.
TestHook = HookStructuralTests
