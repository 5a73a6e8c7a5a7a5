"""What an orchestrator has to have, as a test to inherit from and to run with `--module-path`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.structural import OrchestratorStructuralTests
from paddock_sdk.validation.structural import OrchestratorStructuralTests as TestOrchestrator

__all__ = ["OrchestratorStructuralTests", "TestOrchestrator"]
