"""Which grants let a module change something outside its session's working folder.

What a module writes below that folder, or into a private folder that ends with it, stays inside. So does everything
that it has other modules do, which are judged by grants of their own, and what it leaves in the session's state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from paddock.plan.model import ModuleEntry
from paddock.plan.net_rule import SELF
from paddock.plan.permissions import grants_of
from paddock.policy.grants import Grants

# By family: whether a grant acts outside of a folder. Paths are those that links lead to. No grant is a socket or a
# device: only files and folders are granted, and a sandbox makes no socket of a kind that a path names.
ACTS: Final[Mapping[str, Callable[[Any, Path], bool]]] = MappingProxyType(
    {
        "read": lambda grant, folder: False,
        "write": lambda grant, folder: not grant.path.is_relative_to(folder),
        "net": lambda grant, folder: grant != SELF,
        "env": lambda grant, folder: False,
        "secrets": lambda grant, folder: True,
        "run": lambda grant, folder: False,  # programs have the module's other grants, and no more
        "call": lambda grant, folder: grant in ("spawn", "*"),
        "emit": lambda grant, folder: False,
        "hooks": lambda grant, folder: False,
        "mount": lambda grant, folder: False,
    }
)


def acts_outside(entry: ModuleEntry, grants: Grants, level: str, folder: Path) -> bool:
    """Return whether a module with an authorised entry can act outside of a folder.

    `grants` are its paths without links, as `folder` is. At isolation level `none` its grants bind nothing. A home that
    is kept outlives the session.
    """
    if level == "none" or entry.state == "keep":
        return True
    granted = grants_of(entry.permissions)
    values = {family: getattr(granted, family) for family in ACTS} | {"write": grants.writes}
    return any(acts(grant, folder) for family, acts in ACTS.items() for grant in values[family])
