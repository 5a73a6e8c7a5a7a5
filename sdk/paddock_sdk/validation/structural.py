"""The validators' checks as tests to inherit from, one for each kind of module.

A subclass whose name starts with `Test` validates the module of the fixture `validate_structure`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

__all__ = [
    "ContextStructuralTests",
    "HookStructuralTests",
    "OrchestratorStructuralTests",
    "ProviderStructuralTests",
    "ToolStructuralTests",
]


class _StructuralTests:
    """Test of the fixture `validate_structure`."""

    pytestmark = pytest.mark.module_validation

    kind: ClassVar[str]

    @pytest.mark.asyncio
    async def test_structural_validation(self, validate_structure: Any) -> None:
        result = await validate_structure(self.kind)
        if not result.passed:
            errors = "\n".join(f"  {check.name}: {check.message}" for check in result.errors)
            pytest.fail(f"{result.module_path}: {result.summary()}\n{errors}", pytrace=False)


class ToolStructuralTests(_StructuralTests):
    kind = "tool"


class ProviderStructuralTests(_StructuralTests):
    kind = "provider"


class HookStructuralTests(_StructuralTests):
    kind = "hook"


class OrchestratorStructuralTests(_StructuralTests):
    kind = "orchestrator"


class ContextStructuralTests(_StructuralTests):
    kind = "context"
