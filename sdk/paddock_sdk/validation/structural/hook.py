"""What a hook has to have."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_sdk.validation.structural.verdict import accept

__all__ = ["HookStructuralTests"]


class HookStructuralTests:
    """Test of the fixture `validate_structure`."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_structural_validation(self, validate_structure: Any) -> None:
        accept(await validate_structure("hook"))
