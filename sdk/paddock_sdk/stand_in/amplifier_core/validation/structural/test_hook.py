"""What a hook has to have, as a test to inherit from and to run with `--module-path`."""

from paddock_sdk.validation.structural import HookStructuralTests as HookStructuralTests

TestHook = HookStructuralTests
