"""The tables of grants that the presets of a plan stand for."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from paddock.plan.permissions import Permissions, Preset

PRESETS: Final[Mapping[Preset, Permissions]] = MappingProxyType(
    {
        "isolated": Permissions(),
        "workspace-read": Permissions(read=(".",)),
        "workspace": Permissions(read=(".",), write=(".",)),
        "shell": Permissions(read=(".",), write=(".",), run=("*",)),
    }
)


def grants_of(permissions: Permissions) -> Permissions:
    """Return what is granted family by family, with a preset replaced by what it stands for."""
    return permissions if permissions.preset is None else PRESETS[permissions.preset]
