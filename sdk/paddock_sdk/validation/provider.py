"""What a provider has to have."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from paddock_sdk.contract.models import ProviderInfo
from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.member_checks import check_async, check_name
from paddock_sdk.validation.members import described
from paddock_sdk.validation.mounted_object import MountedObjectValidator
from paddock_sdk.validation.result import ValidationResult

__all__ = ["ProviderValidator"]


class ProviderValidator(MountedObjectValidator):
    """Checks modules that mount providers. Of its methods only `get_info` is called, which asks no one."""

    kind = "provider"
    mounted_by = 'coordinator.mount("providers", provider, name=...)'
    members: ClassVar = {
        "name": False,
        "get_info": True,
        "list_models": True,
        "complete": True,
        "parse_tool_calls": True,
    }

    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        return list(coordinator.mount_points["providers"].values())

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        check_name(result, "provider_name", obj)
        _check_info(result, obj)
        check_async(result, "provider_list_models", obj, "list_models", at_least=0, called="list_models()")
        check_async(result, "provider_complete", obj, "complete", at_least=1, called="complete(request, **kwargs)")
        result.succeed("provider_parse_tool_calls", "parse_tool_calls() can be called")  # as `members` has it


def _check_info(result: ValidationResult, provider: Any) -> None:
    try:
        info = provider.get_info()
    except Exception as error:  # module code, which may need credentials for this
        result.warn("provider_get_info", f"get_info() raised {described(error)}")
        return
    if isinstance(info, ProviderInfo):
        result.succeed("provider_get_info", "get_info() returns a `ProviderInfo`")
        return
    if inspect.iscoroutine(info):
        info.close()
    result.fail("provider_get_info", f"get_info() has to return a `ProviderInfo`, not a {type(info).__name__}")
