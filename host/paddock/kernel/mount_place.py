"""Where a module may mount its objects: at points of its kind, under names that are nobody else's.

A name is one for people and models, who must not take it for another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from paddock.rpc.handle import Handle
from paddock_sdk.kernel.mounts import MULTI_POINTS, RESOLVER_POINT

if TYPE_CHECKING:
    from paddock.kernel.coordinator import HostedCoordinator
    from paddock.kernel.module import HostedModule
    from paddock.rpc.values import Values

_MOUNT_NAME: Final = re.compile(r"[!-~](?:[ -~]{0,126}[!-~])?")
_MOUNT_NAME_TOLD: Final = "1 to 128 letters, digits and signs of ASCII, with no space around them"
_SHOWN_NAME: Final = 40  # characters of a name that is none


def check_place(
    module: HostedModule, coordinator: HostedCoordinator, values: Values, point: str, name: str | None
) -> None:
    """Do nothing if a module may mount something at `point` under `name`.

    Raises:
        ValueError: the place is another's, of another kind of module, or none.
    """
    if point == RESOLVER_POINT:
        raise ValueError("a resolver decides which code is trusted, so the application mounts it, not a module")
    if point in ("orchestrator", "context") and point != module.kind:
        raise ValueError(f"the {point} of a session is mounted by its {point} module, not by a {module.kind}")
    if point in MULTI_POINTS:
        _check_name(module, coordinator, values, point, name)
    present = coordinator.get(point, name)
    if present is None or _is_own(module, values, present):
        return
    owner = values.handle_of(present)
    place = name or point
    whose = owner.owner.name if isinstance(owner, Handle) else ""
    if not _may_replace(module, point, place, whose):
        raise ValueError(
            f"`{place}` is mounted by {f'module `{whose}`' if whose else 'the application'}; to take its place, the "
            f"entry of `{module.name}` has to say `replaces: {place}`"
        )


def _check_name(
    module: HostedModule, coordinator: HostedCoordinator, values: Values, point: str, name: str | None
) -> None:
    if not isinstance(name, str):
        raise ValueError(f"what is mounted at {point} needs a name")
    if not _MOUNT_NAME.fullmatch(name):
        raise ValueError(f"{name[:_SHOWN_NAME]!a} is no name to mount at {point}: it takes {_MOUNT_NAME_TOLD}")
    for other in coordinator.get(point) or ():
        is_near = other != name and str(other).casefold() == name.casefold()
        if is_near and not _is_own(module, values, coordinator.get(point, other)):
            raise ValueError(f"`{name}` differs from `{other}`, which is mounted, by case alone")


def _is_own(module: HostedModule, values: Values, present: Any) -> bool:
    return module.owns(values.handle_of(present))


def _may_replace(module: HostedModule, point: str, name: str, owner: str) -> bool:
    # Each instance of a provider mounts under the module's own name first, and is renamed by the session then.
    is_instance = module.entry.instance_id is not None and point == "providers"
    return is_instance or not {name, owner}.isdisjoint(module.entry.replaces)
