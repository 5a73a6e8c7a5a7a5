"""The validators' checks as tests to inherit from, one for each kind of module.

A subclass whose name starts with `Test` validates whatever module the fixture `validate_structure` stands for.
"""

from __future__ import annotations

from paddock_sdk.validation.structural.context import ContextStructuralTests
from paddock_sdk.validation.structural.hook import HookStructuralTests
from paddock_sdk.validation.structural.orchestrator import OrchestratorStructuralTests
from paddock_sdk.validation.structural.provider import ProviderStructuralTests
from paddock_sdk.validation.structural.tool import ToolStructuralTests

__all__ = [
    "ContextStructuralTests",
    "HookStructuralTests",
    "OrchestratorStructuralTests",
    "ProviderStructuralTests",
    "ToolStructuralTests",
]
