"""What every module of a kind does, as tests to inherit from."""

# Written from the table in tests/sdk/stand_in/reexports.py.

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
