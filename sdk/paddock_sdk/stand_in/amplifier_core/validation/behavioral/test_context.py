"""What every context does, as tests to inherit from and to run with `--module-path`."""

from paddock_sdk.validation.behavioral import ContextBehaviorTests as ContextBehaviorTests

TestContext = ContextBehaviorTests
