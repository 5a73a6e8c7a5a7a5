"""What shape a mount plan has to have."""

from __future__ import annotations

from paddock_sdk.validation.mount_plan import MountPlanValidationResult, MountPlanValidator
from paddock_sdk.validation.result import ValidationCheck

__all__ = [
    "MountPlanValidationResult",
    "MountPlanValidator",
    "ValidationCheck",
]
