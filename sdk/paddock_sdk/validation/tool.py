"""What a tool has to have."""

from __future__ import annotations

from typing import Any, ClassVar

from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.member_checks import check_async, check_name
from paddock_sdk.validation.members import described
from paddock_sdk.validation.mounted_object import MountedObjectValidator
from paddock_sdk.validation.result import ValidationResult

__all__ = ["ToolValidator"]


class ToolValidator(MountedObjectValidator):
    """Checks modules that mount tools."""

    kind = "tool"
    mounted_by = 'coordinator.mount("tools", tool, name=...)'
    members: ClassVar = {"name": False, "description": False, "execute": True}

    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        return list(coordinator.mount_points["tools"].values())

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        check_name(result, "tool_name", obj)
        _check_description(result, obj)
        _check_schema(result, obj)
        check_async(result, "tool_execute", obj, "execute", at_least=1, called="execute(input)")


def _check_description(result: ValidationResult, tool: Any) -> None:
    try:
        description = tool.description
    except Exception as error:  # a property of a class we do not know
        result.fail("tool_description", f"reading the `description` raised {described(error)}")
        return
    if isinstance(description, str) and description:
        result.succeed("tool_description", "`description` is a text")
    else:
        result.warn("tool_description", f"models read the `description`; it has to be a text, not {description!r:.60}")


def _check_schema(result: ValidationResult, tool: Any) -> None:
    schema = getattr(tool, "input_schema", {})
    if isinstance(schema, dict):
        result.succeed("tool_input_schema", "`input_schema` is a dict, or not there")
    else:
        message = f"an `input_schema` is a dict with a JSON schema, not {type(schema).__name__}"
        result.warn("tool_input_schema", message)
