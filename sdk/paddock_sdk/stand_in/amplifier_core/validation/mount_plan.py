"""What shape a mount plan has to have."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.mount_plan import MountPlanValidationResult, MountPlanValidator
from paddock_sdk.validation.result import ValidationCheck

__all__ = ["MountPlanValidationResult", "MountPlanValidator", "ValidationCheck"]
