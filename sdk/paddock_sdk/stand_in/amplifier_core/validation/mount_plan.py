"""What shape a mount plan has to have."""

from __future__ import annotations

from paddock_sdk.validation.mount_plan import MountPlanValidationResult, MountPlanValidator

__all__ = ["MountPlanValidationResult", "MountPlanValidator"]
