"""What a tool has to have."""

from __future__ import annotations

from typing import Any, ClassVar

from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.member_checks import check_async, check_text
from paddock_sdk.validation.members import member
from paddock_sdk.validation.mounted_object import MountedObjectValidator
from paddock_sdk.validation.result import ValidationResult

__all__ = ["ToolValidator"]


class ToolValidator(MountedObjectValidator):
    """Checks modules that mount tools; of several tools each check looks at all."""

    kind = "tool"
    mounted_by = 'coordinator.mount("tools", tool, name=...)'
    members: ClassVar = {"name": False, "description": False, "execute": True}

    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        return list(coordinator.mount_points["tools"].values())

    def check_members(self, result: ValidationResult, objects: list[Any]) -> None:
        check_text(result, "tool_name", objects, "name")
        check_text(result, "tool_description", objects, "description")
        _check_schemas(result, objects)
        check_async(result, "tool_execute", objects, "execute", at_least=1, called="execute(input)")


def _check_schemas(result: ValidationResult, tools: list[Any]) -> None:
    found = [(tool, member(tool, "input_schema")) for tool in tools]
    wrong = [
        f"{type(tool).__name__} has {type(schema.value).__name__}"
        for tool, schema in found
        if schema.present and not isinstance(schema.value, dict)
    ]
    missing = [f"{type(tool).__name__} {schema.absence}" for tool, schema in found if schema.absence is not None]
    if wrong:
        result.fail("tool_input_schema", f"an `input_schema` is a dict with a JSON schema: {'; '.join(wrong)}")
    elif missing:
        result.warn("tool_input_schema", f"no model will know what to pass: {'; '.join(missing)}")
    else:
        result.succeed("tool_input_schema", "`input_schema` is a dict")
