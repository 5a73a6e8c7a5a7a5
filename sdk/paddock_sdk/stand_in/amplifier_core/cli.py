"""The command `amplifier-core`."""

# Written from the table in tests/sdk/stand_in/reexports.py.

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
    "list_types",
    "main",
    "print_result",
    "validate",
    "cli",
]

if __name__ == "__main__":
    main()
