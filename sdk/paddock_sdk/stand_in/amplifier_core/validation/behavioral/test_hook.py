"""What every hook does, as tests to inherit from and to run with `--module-path`."""

from paddock_sdk.contract.models import HookResult as HookResult
from paddock_sdk.validation.behavioral import HookBehaviorTests as HookBehaviorTests

TestHook = HookBehaviorTests
