"""What every orchestrator does, as tests to inherit from and to run with `--module-path`."""

from paddock_sdk.validation.behavioral import OrchestratorBehaviorTests as OrchestratorBehaviorTests

TestOrchestrator = OrchestratorBehaviorTests
