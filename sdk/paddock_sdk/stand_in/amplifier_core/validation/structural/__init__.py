"""The validators' checks, as tests to inherit from."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.members import check_on_session_ready
from paddock_sdk.validation.structural import (
    ContextStructuralTests,
    HookStructuralTests,
    OrchestratorStructuralTests,
    ProviderStructuralTests,
    ToolStructuralTests,
)

__all__ = [
    "check_on_session_ready",
    "ContextStructuralTests",
    "HookStructuralTests",
    "OrchestratorStructuralTests",
    "ProviderStructuralTests",
    "ToolStructuralTests",
]
