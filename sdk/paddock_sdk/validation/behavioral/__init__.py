"""The behaviour of every module of a kind, as tests to inherit from.

`…BehaviorTests` are the contract's: the same names, passed and failed by the same modules. `Strict…Tests` require more.
pytest collects a subclass whose name starts with `Test`.
"""

from __future__ import annotations

from paddock_sdk.validation.behavioral.context import ContextBehaviorTests, StrictContextTests
from paddock_sdk.validation.behavioral.hook import HookBehaviorTests, StrictHookTests
from paddock_sdk.validation.behavioral.orchestrator import OrchestratorBehaviorTests, StrictOrchestratorTests
from paddock_sdk.validation.behavioral.provider import ProviderBehaviorTests, StrictProviderTests
from paddock_sdk.validation.behavioral.tool import StrictToolTests, ToolBehaviorTests

__all__ = [
    "ContextBehaviorTests",
    "HookBehaviorTests",
    "OrchestratorBehaviorTests",
    "ProviderBehaviorTests",
    "StrictContextTests",
    "StrictHookTests",
    "StrictOrchestratorTests",
    "StrictProviderTests",
    "StrictToolTests",
    "ToolBehaviorTests",
]
