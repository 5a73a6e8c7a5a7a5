"""Bring the module's code into this process: the first untrusted line runs here, and nowhere before.

Import it, look up `mount`, call it. Each step may fail in the module's own way; the outcome names the failed step and
its error.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from paddock_sdk.kernel.coordinator import ModuleCoordinator
from paddock_sdk.kernel.startup.entry_point import session_ready_of

SessionReady = Callable[[ModuleCoordinator], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Mounted:
    """The module is mounted; `on_session_ready` is its function to call later, if any."""

    on_session_ready: SessionReady | None


@dataclass(frozen=True, slots=True)
class NotMounted:
    """The module could not be mounted: the stage that failed, and how."""

    stage: str  # "import", "lookup" or "mount"
    error: BaseException


async def mount_module(
    coordinator: ModuleCoordinator, import_root: str, package: str, attribute: str, config: dict[str, Any]
) -> Mounted | NotMounted:
    """Import `package` from `import_root` and mount it; failures of the module are returned, not raised."""
    # First on the path: an installed module's own packages must be found before others of that name.
    sys.path.insert(0, import_root)
    try:
        module = importlib.import_module(package)
    except BaseException as exc:  # a module may also raise SystemExit while it is imported
        return NotMounted("import", exc)
    mount = getattr(module, attribute, None)
    if not callable(mount):
        return NotMounted("lookup", AttributeError(f"package `{package}` has no function `{attribute}`"))
    try:
        cleanup = mount(coordinator, config)
        if inspect.isawaitable(cleanup):
            cleanup = await cleanup
        if cleanup:
            coordinator.register_cleanup(cleanup)
    except BaseException as exc:  # as above
        return NotMounted("mount", exc)
    return Mounted(session_ready_of(mount))
