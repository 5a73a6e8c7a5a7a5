"""What validation found out, and the steps that validators share."""

from paddock_sdk.validation.members import check_on_session_ready as check_on_session_ready
from paddock_sdk.validation.package_import import import_module_from_path as import_module_from_path
from paddock_sdk.validation.result import *
