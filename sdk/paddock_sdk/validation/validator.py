"""The course every validation takes: import the package, find `mount`, mount it, look at what it mounted.

Code of the module runs, its `mount` once, with a coordinator made for tests; whatever it raises is a failed check and
not an exception. What it mounted is cleaned up, and its imports are undone, before the result is returned, also when
the caller is cancelled. Validations of packages of one name wait for each other. Nothing is bounded in time: a
caller that does not trust the module sees to that. What one kind of module has to have is a subclass's business.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from paddock_sdk.kernel.cancel_watch import CancelWatch
from paddock_sdk.kernel.entry_point import EntryPointError, session_ready_of
from paddock_sdk.kernel.settle import settled
from paddock_sdk.testing.mock_coordinator import MockCoordinator
from paddock_sdk.validation.entry_point import find_mount
from paddock_sdk.validation.members import count_parameters, described, is_async
from paddock_sdk.validation.package_import import import_package, own_imports
from paddock_sdk.validation.result import ValidationResult

__all__ = ["ModuleValidator", "Mounting"]

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Mounting:
    """What `mount` did: what it left on the coordinator and what it returned.

    `goes_on` says that the module wants to be called again when the session is ready, which nobody does here.
    """

    coordinator: MockCoordinator
    returned: Any
    goes_on: bool


class ModuleValidator(ABC):
    """Checks modules of one kind."""

    kind: ClassVar[str]

    async def validate(
        self, module_path: str | Path, entry_point: str | None = None, config: dict[str, Any] | None = None
    ) -> ValidationResult:
        """Check the module whose package is the folder `module_path`.

        `entry_point` names one of the entry points its project declares, or the function that mounts the module;
        without it that is `mount`.
        """
        result = ValidationResult(self.kind, str(module_path))
        package = Path(module_path).resolve()  # noqa: ASYNC240 - a few stats; importing blocks much longer
        async with _turn(package.name):
            with own_imports(package):
                module = _imported(result, package)
                mount = None if module is None else _found_mount(result, module, package, entry_point)
                if mount is not None and _takes_what_it_is_given(result, mount):
                    await self._mounted(result, mount, dict(config or {}))
        return result

    async def _mounted(self, result: ValidationResult, mount: Callable[..., Any], config: dict[str, Any]) -> None:
        coordinator = MockCoordinator()
        watch = CancelWatch()
        try:
            returned = await settled(mount(coordinator, config))
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # module code
            if watch.cancelled:
                raise
            result.fail("protocol_compliance", f"mount() raised {described(error)}")
        else:
            if not self.is_module(returned):
                coordinator.register_cleanup(returned)
            self.check(result, Mounting(coordinator, returned, session_ready_of(mount) is not None))
        finally:
            await coordinator.cleanup()

    @abstractmethod
    def is_module(self, returned: Any) -> bool:
        """Return whether what `mount` returned is itself what it should have mounted, and nothing to clean up with."""

    @abstractmethod
    def check(self, result: ValidationResult, mounting: Mounting) -> None:
        """Add the checks of what `mount` did."""


def _imported(result: ValidationResult, package: Path) -> ModuleType | None:
    watch = CancelWatch()
    try:
        module = import_package(package)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # module code
        if watch.cancelled:
            raise
        missing = isinstance(error, ImportError) and error.path == str(package)
        reason = str(error) if missing else f"importing `{package.name}` raised {described(error)}"
        result.fail("module_importable", reason)
        return None
    result.succeed("module_importable", f"`{package.name}` can be imported")
    return module


def _found_mount(
    result: ValidationResult, module: ModuleType, package: Path, entry_point: str | None
) -> Callable[..., Any] | None:
    try:
        mount = find_mount(module, package, entry_point)
    except EntryPointError as error:
        result.fail("mount_exists", str(error))
        return None
    result.succeed("mount_exists", f"`{getattr(mount, '__name__', 'mount')}` is there and can be called")
    return mount


def _takes_what_it_is_given(result: ValidationResult, mount: Callable[..., Any]) -> bool:
    fits = False
    if count_parameters(mount) < 2:
        result.fail(
            "mount_signature",
            "mount() takes fewer than two arguments; it is called as `await mount(coordinator, config)`",
        )
    elif not is_async(mount):
        result.fail(
            "mount_signature", "mount() is not asynchronous; define it as `async def mount(coordinator, config)`"
        )
    else:
        fits = True
        result.succeed("mount_signature", "mount() is asynchronous and takes a coordinator and a configuration")
    ready = session_ready_of(mount)
    if ready is not None and not is_async(ready):
        result.fail(
            "on_session_ready_async",
            "on_session_ready is not asynchronous; define it as `async def on_session_ready(coordinator)`",
        )
    return fits


def _turn(name: str) -> asyncio.Lock:
    """Return the lock of a package's name: two packages of one name cannot be imported side by side."""
    return _turns.setdefault(asyncio.get_running_loop(), {}).setdefault(name, asyncio.Lock())
