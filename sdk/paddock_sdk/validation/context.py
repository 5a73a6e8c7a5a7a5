"""What a context manager has to have."""

from __future__ import annotations

from typing import Any, ClassVar

from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.member_checks import check_async
from paddock_sdk.validation.mounted_object import MountedObjectValidator
from paddock_sdk.validation.result import ValidationResult

__all__ = ["ContextValidator"]

# The methods of the contract, how they are called, and how many arguments that takes at least.
_METHODS = {
    "add_message": ("add_message(message)", 1),
    "get_messages_for_request": ("get_messages_for_request(token_budget=None, provider=None)", 0),
    "get_messages": ("get_messages()", 0),
    "set_messages": ("set_messages(messages)", 1),
    "clear": ("clear()", 0),
}


class ContextValidator(MountedObjectValidator):
    """Checks modules that mount a context manager."""

    kind = "context"
    mounted_by = 'coordinator.mount("context", context)'
    members: ClassVar = dict.fromkeys(_METHODS, True)

    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        mounted = coordinator.mount_points["context"]
        return [] if mounted is None else [mounted]

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        for name, (called, at_least) in _METHODS.items():
            check_async(result, f"context_{name}", obj, name, at_least=at_least, called=called)
