"""Where a module may mount its objects: at points of its kind, under names that no other module has.

People and models read a name, and must not take it for another. If an entry of the plan cannot mount an object because
another entry has the name, that is a conflict of the plan, which stops the start of the session.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from paddock.errors import PlanProblem
from paddock.policy.authority import Authority
from paddock.rpc.peer import AnyHandle, Handle
from paddock_sdk.kernel.mounts import MULTI_POINTS

if TYPE_CHECKING:
    from paddock.rpc.marshal import Marshaller
    from paddock.session.state.coordinator import HostedCoordinator

_MOUNT_NAME: Final = re.compile(r"[!-~](?:[ -~]{0,126}[!-~])?")
_MOUNT_NAME_TOLD: Final = "1 to 128 letters, digits and signs of ASCII, with no space around them"
_SHOWN_NAME: Final = 40  # characters of an invalid name, in the error


class NameTakenError(ValueError):
    """Raised where a module wants a name of another; `owner` is that module, None for the application."""

    def __init__(self, message: str, name: str, owner: Authority | None) -> None:
        self.name = name
        self.owner = owner
        super().__init__(message)

    def conflict(self, module: Authority) -> PlanProblem | None:
        """Return the plan's conflict, if the name is taken by another of its entries."""
        if self.owner is None or self.owner is module:
            return None
        mine, theirs = module.entry, self.owner.entry
        return PlanProblem(
            mine.path,
            f"`{mine.module}` takes the name `{self.name}`, which `{theirs.module}` has taken, at {theirs.path}",
            f"take one of the two out, or write in the entry of `{mine.module}`: {module.replaces_line(self.name)}",
        )


def check_place(
    module: Authority,
    coordinator: HostedCoordinator,
    marshaller: Marshaller,
    point: str,
    name: str | None,
    *,
    owns: Callable[[AnyHandle], bool],
    was_mounted: bool,
) -> None:
    """Do nothing if a module may mount something at `point` under `name`.

    `owns` says whether an object is the module's, and `was_mounted` whether the module was mounted before.

    Raises:
        CallRefusedError: the point is for another kind of module, and no grant says otherwise.
        NameTakenError: the name is another's.
        ValueError: the name is none.
    """
    module.check_mount(point)
    if point in MULTI_POINTS:
        _check_name(module, coordinator, marshaller, point, name)
    present = coordinator.get(point, name)
    if present is None or owns(marshaller.handle_of(present)):
        return
    owner = _owner_of(marshaller, present)
    place = name or point
    if not _may_replace(module, point, place, owner, was_mounted):
        whose = f"module `{owner.name}`" if owner is not None else "the application"
        raise NameTakenError(
            f"`{place}` is mounted by {whose}; to take its place, the entry of `{module.name}` has to say "
            f"`replaces: {place}`",
            place,
            owner,
        )


def check_instance(module: Authority, coordinator: HostedCoordinator, marshaller: Marshaller) -> None:
    """Do nothing if the session may give a provider that was just mounted the name of its `instance_id`.

    Raises:
        NameTakenError: that name is another's.
        ValueError: it is none.
    """
    entry = module.entry
    name = entry.instance_id if entry.kind == "provider" else None
    if name is None:
        return
    _check_name(module, coordinator, marshaller, "providers", name)
    present = coordinator.get("providers", name)
    owner = _owner_of(marshaller, present) if present is not None else None
    if present is None or owner is module or _replaces(module, name, owner):
        return
    whose = f"module `{owner.entry.module}`" if owner is not None else "the application"
    raise NameTakenError(f"provider `{name}` is mounted by {whose}", name, owner)


def _check_name(
    module: Authority, coordinator: HostedCoordinator, marshaller: Marshaller, point: str, name: str | None
) -> None:
    if not isinstance(name, str):
        raise ValueError(f"what is mounted at {point} needs a name")
    if not _MOUNT_NAME.fullmatch(name):
        raise ValueError(f"{name[:_SHOWN_NAME]!a} is no name to mount at {point}: it takes {_MOUNT_NAME_TOLD}")
    for other in coordinator.get(point) or ():
        is_near = other != name and str(other).casefold() == name.casefold()
        present = coordinator.get(point, other) if is_near else None
        owner = _owner_of(marshaller, present) if present is not None else None
        if present is not None and owner is not module:
            raise NameTakenError(f"`{name}` differs from `{other}`, which is mounted, by case alone", name, owner)


def _owner_of(marshaller: Marshaller, present: Any) -> Authority | None:
    handle = marshaller.handle_of(present)
    owner = handle.owner.authority if isinstance(handle, Handle) else None
    return owner if isinstance(owner, Authority) else None


def _may_replace(module: Authority, point: str, name: str, owner: Authority | None, was_mounted: bool) -> bool:
    if _replaces(module, name, owner):
        return True
    # Each instance of a provider mounts under the module's own name first; the session renames it right after that,
    # and gives the name back to the instance that had it.
    is_own_name = point == "providers" and name == module.entry.module.removeprefix("provider-")
    is_being_named = module.entry.instance_id is not None and not was_mounted
    return is_own_name and is_being_named and owner is not None and module.is_of_the_same_code(owner)


def _replaces(module: Authority, name: str, owner: Authority | None) -> bool:
    return module.replaces(name) or (owner is not None and module.replaces(owner.name))
