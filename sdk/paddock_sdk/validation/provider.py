"""What a provider has to have."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

from paddock_sdk.contract.models import ProviderInfo
from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.member_checks import check_async, check_text, uncallable
from paddock_sdk.validation.members import described, is_async
from paddock_sdk.validation.mounted_object import MountedObjectValidator
from paddock_sdk.validation.result import ValidationResult

__all__ = ["ProviderValidator"]


class ProviderValidator(MountedObjectValidator):
    """Checks modules that mount a provider. Of its methods only `get_info` is called, which asks no one."""

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

    def check_members(self, result: ValidationResult, objects: list[Any]) -> None:
        check_text(result, "provider_name", objects, "name")
        _check_info(result, objects)
        check_async(result, "provider_list_models", objects, "list_models", at_least=0, called="list_models()")
        check_async(result, "provider_complete", objects, "complete", at_least=1, called="complete(request, **kwargs)")
        _check_parsing(result, objects)


def _check_info(result: ValidationResult, providers: list[Any]) -> None:
    faults = uncallable(providers, "get_info")
    if faults:
        result.fail("provider_get_info", f"`get_info` has to be defined as `def get_info()`: {'; '.join(faults)}")
        return
    doubts = [doubt for provider in providers if (doubt := _doubt_about(provider.get_info))]
    if doubts:
        result.warn("provider_get_info", f"get_info() has to return a `ProviderInfo`: it {'; it '.join(doubts)}")
    else:
        result.succeed("provider_get_info", "get_info() returns a `ProviderInfo`")


def _doubt_about(get_info: Any) -> str | None:
    try:
        info = get_info()
    except Exception as error:  # module code
        return f"raised {described(error)}"
    if inspect.iscoroutine(info):
        info.close()
        return "is asynchronous"
    return None if isinstance(info, ProviderInfo) else f"returned {type(info).__name__}"


def _check_parsing(result: ValidationResult, providers: list[Any]) -> None:
    faults = uncallable(providers, "parse_tool_calls")
    if faults:
        message = f"`parse_tool_calls` has to be defined as `def parse_tool_calls(response)`: {'; '.join(faults)}"
        result.fail("provider_parse_tool_calls", message)
    elif any(is_async(provider.parse_tool_calls) for provider in providers):
        message = "parse_tool_calls() is asynchronous; orchestrators call it without await"
        result.warn("provider_parse_tool_calls", message)
    else:
        result.succeed("provider_parse_tool_calls", "parse_tool_calls() can be called")
