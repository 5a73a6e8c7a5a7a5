"""What a context has to have."""

from __future__ import annotations

from typing import Any

import pytest

from paddock_sdk.validation.structural.verdict import accept

__all__ = ["ContextStructuralTests"]


class ContextStructuralTests:
    """Test of the fixture `validate_structure`."""

    pytestmark = pytest.mark.module_validation

    @pytest.mark.asyncio
    async def test_structural_validation(self, validate_structure: Any) -> None:
        accept(await validate_structure("context"))
