"""The validators' checks, as tests to inherit from."""

from __future__ import annotations

from paddock_sdk.validation.ready_check import check_on_session_ready
from paddock_sdk.validation.structural import (
    ContextStructuralTests,
    HookStructuralTests,
    OrchestratorStructuralTests,
    ProviderStructuralTests,
    ToolStructuralTests,
)

__all__ = [
    "ContextStructuralTests",
    "HookStructuralTests",
    "OrchestratorStructuralTests",
    "ProviderStructuralTests",
    "ToolStructuralTests",
    "check_on_session_ready",
]
