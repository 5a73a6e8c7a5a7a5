"""What a plan or a person may ask for, and nothing enforces yet while modules only have a process of their own.

One table for `run`, which says so, and `call`, which refuses. Empty it as enforcement arrives.
"""

from __future__ import annotations

from typing import Final

from paddock.plan import Limits, ModuleEntry

LEVEL: Final = "process only"
ENFORCED_LIMITS: Final = ("runtime_max", "start_max")
_ENFORCED_GRANTS: Final = frozenset({"env", "secrets", "call", "emit", "hooks"})


def unenforced_limits(limits: Limits) -> list[str]:
    """Return the names of the limits that are set and that nothing enforces."""
    return [name for name, value in limits if value is not None and name not in ENFORCED_LIMITS]


def unenforced_settings(entry: ModuleEntry) -> list[str]:
    """Return the places, below the entry, of all that it asks for and nothing enforces."""
    settings = [f"limits.{name}" for name in unenforced_limits(entry.limits)]
    if entry.permissions.preset is not None:
        settings.append(f"permissions: {entry.permissions.preset}")
    granted = (name for name, value in entry.permissions if value and name != "preset")
    settings += [f"permissions.{name}" for name in granted if name not in _ENFORCED_GRANTS]
    settings += [f"permissions.secrets: {secret.name}" for secret in entry.permissions.secrets if secret.inject]
    if entry.isolation not in (None, "none"):
        settings.append(f"isolation: {entry.isolation}")
    if entry.state == "keep":
        settings.append("state: keep")
    return settings
