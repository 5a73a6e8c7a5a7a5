"""What every module of a kind does, as tests to inherit from.

A subclass whose name starts with `Test` runs them against whatever supplies the fixtures they ask for; those are
listed in `paddock_sdk.validation`.
"""

from __future__ import annotations

from paddock_sdk.validation.behavioral.context import ContextBehaviorTests
from paddock_sdk.validation.behavioral.hook import HookBehaviorTests
from paddock_sdk.validation.behavioral.orchestrator import OrchestratorBehaviorTests
from paddock_sdk.validation.behavioral.provider import ProviderBehaviorTests
from paddock_sdk.validation.behavioral.tool import ToolBehaviorTests

__all__ = [
    "ContextBehaviorTests",
    "HookBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "ToolBehaviorTests",
]
