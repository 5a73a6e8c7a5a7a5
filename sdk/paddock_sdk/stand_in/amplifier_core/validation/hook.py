"""What a hook has to have."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.hook import HookValidator
from paddock_sdk.validation.package_import import import_module_from_path
from paddock_sdk.validation.ready_check import check_on_session_ready
from paddock_sdk.validation.result import ValidationCheck, ValidationResult

__all__ = ["HookValidator", "import_module_from_path", "check_on_session_ready", "ValidationCheck", "ValidationResult"]
