"""The tables of grants that the presets of a plan stand for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from paddock.plan.permissions import Permissions, Preset


@cache
def preset_grants() -> Mapping[Preset, Permissions]:
    """Return what each preset stands for; made when the first is asked for, as its model builds its validator then."""
    return MappingProxyType(
        {
            "isolated": Permissions(),
            "workspace-read": Permissions(read=(".",)),
            "workspace": Permissions(read=(".",), write=(".",)),
            "shell": Permissions(read=(".",), write=(".",), run=("*",)),
        }
    )


def grants_of(permissions: Permissions) -> Permissions:
    """Return what is granted family by family, with a preset replaced by what it stands for."""
    return permissions if permissions.preset is None else preset_grants()[permissions.preset]
