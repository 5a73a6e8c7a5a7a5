"""What a module of each kind has to have, and the checks that tell."""

# Written from the table in tests/sdk/stand_in/reexports.py.

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
