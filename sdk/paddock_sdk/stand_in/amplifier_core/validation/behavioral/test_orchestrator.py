"""What every orchestrator does, as tests to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.behavioral import OrchestratorBehaviorTests
from paddock_sdk.validation.behavioral import OrchestratorBehaviorTests as TestOrchestrator

__all__ = ["OrchestratorBehaviorTests", "TestOrchestrator"]
