"""The facts in a module's id: its names elsewhere, and its kind.

This is pure text. A declaration in the code takes precedence over the id: callers that have imported the code look
there first.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "DISTRIBUTION_PREFIX",
    "PACKAGE_PREFIX",
    "display_name",
    "distribution_name",
    "kind_by_id",
    "package_name",
]

DISTRIBUTION_PREFIX: Final = "amplifier-module-"
PACKAGE_PREFIX: Final = "amplifier_module_"

# In this order: "loop-with-tools" is an orchestrator.
_KIND_BY_PART: Final = (
    ("orchestrat", "orchestrator"),
    ("loop", "orchestrator"),
    ("provider", "provider"),
    ("tool", "tool"),
    ("hook", "hook"),
    ("context", "context"),
)


def kind_by_id(module_id: str) -> str:
    """Return the kind that an id suggests; a tool where it suggests none."""
    return next((kind for part, kind in _KIND_BY_PART if part in module_id), "tool")


def package_name(module_id: str) -> str:
    """Return the name that the module's code is imported by."""
    return PACKAGE_PREFIX + re.sub(r"[^A-Za-z0-9_]", "_", module_id)


def distribution_name(module_id: str) -> str:
    """Return the name that the module is installed by, which is also that of its folder."""
    return DISTRIBUTION_PREFIX + module_id


def display_name(module_id: str) -> str:
    """Return the id as a heading."""
    return module_id.replace("-", " ").title()
