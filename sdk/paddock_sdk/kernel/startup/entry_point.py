"""The functions in a module's code that a session calls: the one that mounts it, and its `on_session_ready`.

Loaders and validators share this rule, so that the checked function is the mounted one.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from paddock_sdk.kernel.settle import safe_exception_str

#: Where modules say what mounts them; the second is how a few of them spell it.
ENTRY_POINT_GROUPS: Final = ("amplifier.modules", "amplifier.tools")

_log = logging.getLogger(__name__)


class EntryPointError(Exception):
    """Raised when there is no function to mount the module with."""


def mount_in(module: ModuleType, place: str) -> Callable[..., Any]:
    """Return the function that an entry point inside the package `module` leads to.

    `place` is written as `package.file:function`, or as `package.file` for the `mount` in it.

    Raises:
        EntryPointError: it does not exist, or cannot be called.
    """
    home_name, _, name = (part.strip() for part in place.partition(":"))
    home = module if home_name == module.__name__ else _imported(home_name, place)
    name = name or "mount"
    mount = getattr(home, name, None)
    if mount is None:
        raise EntryPointError(
            f"`{home.__name__}` has no `{name}`; define `async def {name}(coordinator, config)` in it"
        )
    if not callable(mount):
        raise EntryPointError(f"`{name}` of `{home.__name__}` is {type(mount).__name__}, which cannot be called")
    found: Callable[..., Any] = mount
    return found


def session_ready_of(mount: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the `on_session_ready` of the file that defines `mount`; one that is not asynchronous does not count."""
    ready: Callable[..., Any] | None = getattr(home_of(mount), "on_session_ready", None)
    if ready is None or inspect.iscoroutinefunction(ready):
        return ready
    _log.warning("on_session_ready in %s is not asynchronous and will not be called", mount.__module__)
    return None


def home_of(mount: Callable[..., Any]) -> ModuleType | None:
    """Return the file that defines `mount`, None where it is not imported."""
    return sys.modules.get(getattr(mount, "__module__", None) or "")


def _imported(name: str, place: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # the module's code, which may fail in any way
        raise EntryPointError(
            f"entry point `{place}` names `{name}`, which cannot be imported: {type(error).__name__}: "
            f"{safe_exception_str(error)}"
        ) from error
