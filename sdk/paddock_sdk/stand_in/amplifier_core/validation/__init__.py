"""What a module of each kind has to have, and the checks that tell."""

from __future__ import annotations

from paddock_sdk.validation import (
    ContextValidator,
    HookValidator,
    MountPlanValidationResult,
    MountPlanValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationCheck,
    ValidationResult,
)

__all__ = [
    "ContextValidator",
    "HookValidator",
    "MountPlanValidationResult",
    "MountPlanValidator",
    "OrchestratorValidator",
    "ProviderValidator",
    "ToolValidator",
    "ValidationCheck",
    "ValidationResult",
]
