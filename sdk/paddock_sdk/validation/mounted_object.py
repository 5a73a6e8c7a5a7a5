"""Validation of the kinds whose modules mount objects: all but hooks.

The members that each object must have form a set of checks of their own. A subclass checks their values, and only on an
object that has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT
from paddock_sdk.kernel.mounts import MULTI_POINTS, own_names
from paddock_sdk.testing import MockCoordinator
from paddock_sdk.validation.members import check_async
from paddock_sdk.validation.result import ValidationResult
from paddock_sdk.validation.validator import ModuleValidator

__all__ = ["MountedObjectValidator"]


def other_names(kind: str, coordinator: MockCoordinator) -> dict[str, str]:
    """Return the mounted name of each object of a kind that is mounted under another name than its own, by its own."""
    point = TYPE_TO_MOUNT_POINT[kind]
    return own_names(coordinator.mount_points[point]) if point in MULTI_POINTS else {}


class MountedObjectValidator(ModuleValidator):
    """Checks modules that mount one object or several."""

    #: What an object of this kind has, and whether it is something to call.
    members: ClassVar[Mapping[str, bool]]

    #: Its asynchronous methods: how each is called, and how many arguments that takes at least.
    _methods: ClassVar[Mapping[str, tuple[str, int]]]

    #: How such an object is mounted.
    mounted_by: ClassVar[str]

    @property
    def _point(self) -> str:
        return TYPE_TO_MOUNT_POINT[self.kind]

    def mounted(self, coordinator: MockCoordinator) -> list[Any]:
        """Return the mounted objects of this kind."""
        mounted = coordinator.mount_points[self._point]
        if self._point in MULTI_POINTS:
            return list(mounted.values())
        return [] if mounted is None else [mounted]

    def check_members(self, result: ValidationResult, obj: Any) -> None:
        """Add the checks of an object's single members."""
        for name, (called, at_least) in self._methods.items():
            check_async(result, f"{self.kind}_{name}", obj, name, at_least=at_least, called=called)

    def is_module(self, returned: Any) -> bool:
        return returned is not None and not self._missing(returned)

    def check(self, result: ValidationResult, coordinator: MockCoordinator, returned: Any) -> None:
        objects, called = self.mounted(coordinator), dict[int, str]()
        for own, name in other_names(self.kind, coordinator).items():
            called[id(coordinator.get(self._point, name))] = (
                f"; it is mounted as `{name:.60}`, and its own name is `{own:.60}`"
            )
        for obj in objects:
            self._check_object(result, obj, called.get(id(obj), ""))
        if not objects:
            self._check_returned(result, returned)

    def _check_object(self, result: ValidationResult, obj: Any, called: str) -> None:
        name, missing = type(obj).__name__, self._missing(obj)
        if missing:
            message = f"mount() mounted {_a(name)}, which is no {self.kind}: it {'; it '.join(missing)}"
            result.fail("protocol_compliance", message)
        else:
            message = f"mount() mounted {_a(name)}, which implements {self.kind.capitalize()} interface{called}"
            result.succeed("protocol_compliance", message)
            self.check_members(result, obj)

    def _check_returned(self, result: ValidationResult, returned: Any) -> None:
        if self.is_module(returned):
            message = (
                f"mount() returned {_a(self.kind)} without mounting it; a session only knows of one that was given to "
                f"`{self.mounted_by}`"
            )
            result.succeed("protocol_compliance", message)
            self.check_members(result, returned)
        elif callable(returned):
            message = (
                f"mount() returned a cleanup function and mounted no {self.kind} with this configuration, so there was "
                "nothing to look at"
            )
            result.warn("protocol_compliance", message, passed=True)
        else:
            given = "" if returned is None else f" and returned {_a(type(returned).__name__)}"
            message = f"No {self.kind} was mounted{given}; mount() has to `await {self.mounted_by}`"
            result.fail("protocol_compliance", message)

    def _missing(self, obj: Any) -> list[str]:
        """Return the reasons why an object is not of this kind, each as the end of a sentence about it."""
        missing = []
        for name, is_called in self.members.items():
            if not hasattr(obj, name):
                missing.append(f"has no `{name}`")
            elif is_called and not callable(getattr(obj, name)):
                missing.append(f"has a `{name}` that cannot be called")
        return missing


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
