"""What validation found out, and the steps that validators share."""

from __future__ import annotations

from paddock_sdk.validation.package_import import import_module_from_path
from paddock_sdk.validation.ready_check import check_on_session_ready
from paddock_sdk.validation.result import ValidationCheck, ValidationResult

__all__ = [
    "ValidationCheck",
    "ValidationResult",
    "check_on_session_ready",
    "import_module_from_path",
]
