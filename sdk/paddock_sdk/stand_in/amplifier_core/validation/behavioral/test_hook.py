"""What every hook does, as tests to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.contract.models import HookResult
from paddock_sdk.validation.behavioral import HookBehaviorTests
from paddock_sdk.validation.behavioral import HookBehaviorTests as TestHook

__all__ = ["HookResult", "HookBehaviorTests", "TestHook"]
