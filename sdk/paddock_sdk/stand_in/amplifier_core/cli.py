"""The command `amplifier-core`."""

from __future__ import annotations

from paddock_sdk.validation import (
    VALIDATORS,
    ContextValidator,
    HookValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationResult,
)
from paddock_sdk.validation.command_line import list_types, main, print_result, validate
from paddock_sdk.validation.command_line import main as cli

__all__ = [
    "VALIDATORS",
    "ContextValidator",
    "HookValidator",
    "OrchestratorValidator",
    "ProviderValidator",
    "ToolValidator",
    "ValidationResult",
    "cli",
    "list_types",
    "main",
    "print_result",
    "validate",
]

if __name__ == "__main__":
    main()
