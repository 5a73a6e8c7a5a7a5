"""What an orchestrator has to have, as a test to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.validation.structural import OrchestratorStructuralTests

__all__ = ["OrchestratorStructuralTests", "TestOrchestrator"]

# What pytest collects here: it goes by names.
TestOrchestrator = OrchestratorStructuralTests
