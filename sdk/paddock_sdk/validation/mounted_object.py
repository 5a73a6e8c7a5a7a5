"""Validation of the kinds whose modules mount an object: all but hooks.

The object has to have its kind's members; that they are what they should be is checked one by one, by the subclass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.members import member
from paddock_sdk.validation.result import ValidationResult
from paddock_sdk.validation.validator import ModuleValidator, Mounting

__all__ = ["MountedObjectValidator"]


class MountedObjectValidator(ModuleValidator):
    """Checks modules that mount one object or several."""

    #: How an object of this kind is mounted, for messages.
    mounted_by: ClassVar[str]

    #: What an object of this kind has, and whether it is something to call.
    members: ClassVar[Mapping[str, bool]]

    @abstractmethod
    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        """Return what was mounted as objects of this kind are."""

    @abstractmethod
    def check_members(self, result: ValidationResult, objects: list[Any]) -> None:
        """Add what there is to say of the single members of the objects."""

    def is_module(self, returned: Any) -> bool:
        return returned is not None and not self._missing(returned)

    def check(self, result: ValidationResult, mounting: Mounting) -> None:
        objects = self.mounted(mounting.coordinator)
        if objects:
            self._check_protocol(result, objects)
            self.check_members(result, objects)
        elif self.is_module(mounting.returned):
            message = (
                f"mount() returned {_a(self.kind)} without mounting it; a session only knows of one that was given to "
                f"`{self.mounted_by}`"
            )
            result.warn("protocol_compliance", message, passed=True)
            self.check_members(result, [mounting.returned])
        else:
            self._check_absence(result, mounting)

    def _check_absence(self, result: ValidationResult, mounting: Mounting) -> None:
        if callable(mounting.returned):
            message = (
                f"mount() returned a cleanup function and mounted no {self.kind} with this configuration, so there was "
                "nothing to look at"
            )
            result.warn("protocol_compliance", message, passed=True)
        elif mounting.goes_on:
            message = f"mount() mounted no {self.kind}; on_session_ready() may, and was not called"
            result.warn("protocol_compliance", message, passed=True)
        else:
            given = "" if mounting.returned is None else f" and returned {_a(type(mounting.returned).__name__)}"
            result.fail(
                "protocol_compliance", f"mount() mounted no {self.kind}{given}; it has to `await {self.mounted_by}`"
            )

    def _check_protocol(self, result: ValidationResult, objects: list[Any]) -> None:
        faults = [f"{type(obj).__name__} {fault}" for obj in objects for fault in self._missing(obj)]
        if faults:
            result.fail("protocol_compliance", f"mount() mounted what is no {self.kind}: {'; '.join(faults)}")
        else:
            names = ", ".join(type(obj).__name__ for obj in objects)
            result.succeed("protocol_compliance", f"mount() mounted {names}, with all that {_a(self.kind)} has")

    def _missing(self, obj: Any) -> list[str]:
        """Return what keeps an object from being of this kind, each as the end of a sentence about it."""
        faults = []
        for name, is_called in self.members.items():
            found = member(obj, name)
            if found.absence is not None:
                faults.append(found.absence)
            elif is_called and not callable(found.value):
                faults.append(f"has a `{name}` that cannot be called")
        return faults


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
