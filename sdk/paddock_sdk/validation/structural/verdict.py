"""Turn what a validator found out into the outcome of a test."""

from __future__ import annotations

import pytest

from paddock_sdk.validation.result import ValidationResult

__all__ = ["accept"]


def accept(result: ValidationResult) -> None:
    """Fail the running test with the errors, one a line, if there are any."""
    if not result.passed:
        errors = "\n".join(f"  {check.name}: {check.message}" for check in result.errors)
        pytest.fail(f"{result.module_path}: {result.summary()}\n{errors}", pytrace=False)
