"""Find the function that mounts a module: `mount`, or what an entry point names.

The declarations are read from the project's own `pyproject.toml`, beside the package or one level up, never from
what happens to be installed.
"""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["EntryPointError", "find_mount", "home_of"]

_GROUPS = ("amplifier.modules", "amplifier.tools")


class EntryPointError(Exception):
    """Raised when there is no function to mount the module with."""


def find_mount(module: ModuleType, package: Path, entry_point: str | None) -> Callable[..., Any]:
    """Return the function that mounts the module.

    `entry_point` is the name of an entry point, or of a function of the package.

    Raises:
        EntryPointError: there is none, or it cannot be called.
    """
    home, name = module, "mount" if entry_point is None else entry_point
    declared = None if entry_point is None else _declared(package, entry_point)
    if declared is not None:
        home_name, _, name = declared.partition(":")
        home = _home(home_name.strip(), module, entry_point or "")
        name = name.strip() or "mount"
    mount = getattr(home, name, None)
    if mount is None:
        raise EntryPointError(_nothing(home, name, entry_point))
    if not callable(mount):
        raise EntryPointError(f"`{name}` of `{home.__name__}` is {type(mount).__name__}, which cannot be called")
    found: Callable[..., Any] = mount
    return found


def home_of(mount: Callable[..., Any]) -> ModuleType | None:
    """Return the module that defines the function, where `on_session_ready` has to be as well."""
    return sys.modules.get(getattr(mount, "__module__", None) or "")


def _home(name: str, module: ModuleType, entry_point: str) -> ModuleType:
    if name == module.__name__:
        return module
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # module code
        raise EntryPointError(
            f"entry point `{entry_point}` names `{name}`, which cannot be imported: {error}"
        ) from error


def _nothing(home: ModuleType, name: str, entry_point: str | None) -> str:
    if entry_point is None:
        return f"`{home.__name__}` has no `mount`; define `async def mount(coordinator, config)` in its `__init__.py`"
    return f"`{home.__name__}` has no `{name}`, and its project declares no entry point of that name"


def _declared(package: Path, entry_point: str) -> str | None:
    """Return what the project declares an entry point to be, as `package.module:function`."""
    for folder in (package, package.parent):
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
        except (OSError, ValueError):  # none there, or none that can be read: the function's name is left
            continue
        groups = project.get("project", {}).get("entry-points", {})
        for group in _GROUPS:
            value = groups.get(group, {}).get(entry_point)
            if isinstance(value, str):
                return value
    return None
