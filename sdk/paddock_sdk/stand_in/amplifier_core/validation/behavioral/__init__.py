"""What every module of a kind does, as tests to inherit from."""

from __future__ import annotations

from paddock_sdk.validation.behavioral import (
    ContextBehaviorTests,
    HookBehaviorTests,
    OrchestratorBehaviorTests,
    ProviderBehaviorTests,
    ToolBehaviorTests,
)

__all__ = [
    "ContextBehaviorTests",
    "HookBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "ToolBehaviorTests",
]
