"""What every hook does, as tests to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.contract.models import HookResult
from paddock_sdk.validation.behavioral import HookBehaviorTests

__all__ = ["HookResult", "HookBehaviorTests", "TestHook"]

# What pytest collects here: it goes by names.
TestHook = HookBehaviorTests
