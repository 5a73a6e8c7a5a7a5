"""What a hook has to have."""

# Written from the table in tests/sdk/stand_in/reexports.py.

from paddock_sdk.validation.members import check_on_session_ready
from paddock_sdk.validation.package_import import import_module_from_path
from paddock_sdk.validation.result import ValidationCheck, ValidationResult
from paddock_sdk.validation.validators import HookValidator

__all__ = ["check_on_session_ready", "import_module_from_path", "ValidationCheck", "ValidationResult", "HookValidator"]
