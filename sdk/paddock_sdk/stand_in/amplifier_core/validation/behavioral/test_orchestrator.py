"""What every orchestrator does, as tests to inherit from and to run with `--module-path`."""

from __future__ import annotations

from paddock_sdk.validation.behavioral import OrchestratorBehaviorTests

__all__ = ["OrchestratorBehaviorTests", "TestOrchestrator"]

# What pytest collects here: it goes by names.
TestOrchestrator = OrchestratorBehaviorTests
