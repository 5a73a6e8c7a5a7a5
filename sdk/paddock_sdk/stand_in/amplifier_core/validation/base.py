"""What validation found out."""

from __future__ import annotations

from paddock_sdk.validation.result import ValidationCheck, ValidationResult

__all__ = ["ValidationCheck", "ValidationResult"]
