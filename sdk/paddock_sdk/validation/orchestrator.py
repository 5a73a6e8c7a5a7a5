"""What an orchestrator has to have."""

from __future__ import annotations

from typing import Any, ClassVar

from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.member_checks import check_async
from paddock_sdk.validation.mounted_object import MountedObjectValidator
from paddock_sdk.validation.result import ValidationResult

__all__ = ["OrchestratorValidator"]


class OrchestratorValidator(MountedObjectValidator):
    """Checks modules that mount an orchestrator."""

    kind = "orchestrator"
    mounted_by = 'coordinator.mount("orchestrator", orchestrator)'
    members: ClassVar = {"execute": True}

    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        mounted = coordinator.mount_points["orchestrator"]
        return [] if mounted is None else [mounted]

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        check_async(
            result,
            "orchestrator_execute",
            obj,
            "execute",
            at_least=5,
            called="execute(prompt, context, providers, tools, hooks, **kwargs)",
        )
