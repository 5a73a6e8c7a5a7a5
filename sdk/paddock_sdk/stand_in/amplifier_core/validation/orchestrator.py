"""What an orchestrator has to have."""

from __future__ import annotations

from paddock_sdk.validation.orchestrator import OrchestratorValidator

__all__ = ["OrchestratorValidator"]
