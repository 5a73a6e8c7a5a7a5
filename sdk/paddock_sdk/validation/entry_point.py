"""Find the function that mounts a module, from its project's declarations.

The declarations are read from the project's own `pyproject.toml`, in the package or around it, also around a `src`,
never from the installed distributions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from paddock_sdk.kernel.startup.entry_point import ENTRY_POINT_GROUPS, EntryPointError, mount_in

__all__ = ["find_mount"]


def find_mount(module: ModuleType, package: Path, entry_point: str | None) -> Callable[..., Any]:
    """Return the function that mounts the module.

    `entry_point` is the name of an entry point, or of a function of the package.

    Raises:
        EntryPointError: it does not exist, or cannot be called.
    """
    if entry_point is None:
        return mount_in(module, module.__name__)
    declared = _declared(package, entry_point)
    if declared is None and not hasattr(module, entry_point):
        raise EntryPointError(
            f"`{module.__name__}` has no `{entry_point}`, and its project declares no entry point of that name"
        )
    return mount_in(module, declared or f"{module.__name__}:{entry_point}")


def _declared(package: Path, entry_point: str) -> str | None:
    """Return the target that the project declares for an entry point, as `package.module:function`."""
    around = (package.parent, package.parent.parent) if package.parent.name == "src" else (package.parent,)
    for folder in (package, *around):
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
        except (OSError, ValueError):  # none there, or none that can be read: the function's name is left
            continue
        groups = project.get("project", {}).get("entry-points", {})
        for group in ENTRY_POINT_GROUPS:
            value = groups.get(group, {}).get(entry_point)
            if isinstance(value, str):
                return value
    return None
