"""The steps of every validation: import the package, find `mount`, mount it, check the mounted objects.

Code of the module runs, its `mount` once, with a coordinator made for tests. Any exception of it is a failed check and
does not propagate. Mounted objects are cleaned up, and imports are undone, before the result is returned, also when the
caller is cancelled. Validations of packages of one name wait for each other. Nothing is bounded in time: a caller that
does not trust the module must do that. Subclasses define the requirements of one kind of module.
"""

from __future__ import annotations

import asyncio
import importlib
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from paddock_sdk.kernel.settle import CancelWatch
from paddock_sdk.kernel.startup.entry_point import ENTRY_POINT_GROUPS, EntryPointError, home_of, mount_in
from paddock_sdk.testing import MockCoordinator
from paddock_sdk.validation.members import check_on_session_ready, count_parameters, described, is_async
from paddock_sdk.validation.package_import import import_package, name_of, own_imports
from paddock_sdk.validation.result import ValidationResult

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]] = WeakKeyDictionary()


class ModuleValidator(ABC):
    """Checks modules of one kind."""

    kind: ClassVar[str]

    async def validate(
        self, module_path: str | Path, entry_point: str | None = None, config: dict[str, Any] | None = None
    ) -> ValidationResult:
        """Check the module at `module_path`: the folder of its package, its only file, or the name to import it by.

        `entry_point` names one of the entry points its project declares, or the function that mounts the module;
        without it that is `mount`.
        """
        result = ValidationResult(self.kind, str(module_path))
        package = Path(module_path).resolve()  # noqa: ASYNC240 - a few stats; importing blocks much longer
        is_name = isinstance(module_path, str) and all(part.isidentifier() for part in module_path.split("."))
        if is_name and not package.exists():
            await self._check(result, str(module_path), package, entry_point, config)
        else:
            async with _turn(name_of(package)):
                with own_imports(package):
                    await self._check(result, package, package, entry_point, config)
        return result

    async def _check(
        self,
        result: ValidationResult,
        imported_by: Path | str,
        package: Path,
        entry_point: str | None,
        config: dict[str, Any] | None,
    ) -> None:
        module = _imported(result, imported_by)
        mount = None if module is None else _found_mount(result, module, package, entry_point)
        if module is None or mount is None:
            return
        if count_parameters(mount) < 2:
            result.fail(
                "mount_signature",
                "mount() takes fewer than 2 parameters; it is called as `await mount(coordinator, config)`",
            )
        elif not is_async(mount):
            result.fail(
                "mount_signature", "mount() is not asynchronous; define it as `async def mount(coordinator, config)`"
            )
        else:
            result.succeed("mount_signature", "mount() is asynchronous and takes a coordinator and a configuration")
        ready = check_on_session_ready(module) or check_on_session_ready(home_of(mount))
        if ready is not None:
            result.add(ready)
        await self._mounted(result, mount, dict(config or {}))

    async def _mounted(self, result: ValidationResult, mount: Callable[..., Any], config: dict[str, Any]) -> None:
        coordinator = MockCoordinator()
        watch = CancelWatch()
        try:
            returned = await mount(coordinator, config)
            if not self.is_module(returned):
                coordinator.register_cleanup(returned)
            self.check(result, coordinator, returned)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # module code
            if watch.cancelled:
                raise
            result.fail("protocol_compliance", f"mounting the module raised {described(error)}")
        finally:
            try:
                await coordinator.cleanup()
            except (asyncio.CancelledError, SystemExit) as error:  # module code; its cleanup is not checked
                if isinstance(error, asyncio.CancelledError) and watch.cancelled:
                    raise

    @abstractmethod
    def is_module(self, returned: Any) -> bool:
        """Return whether `mount` returned the object that it should have mounted, rather than a cleanup function."""

    @abstractmethod
    def check(self, result: ValidationResult, coordinator: MockCoordinator, returned: Any) -> None:
        """Add the checks of what `mount` left on the coordinator and returned; an exception here fails the module."""


def _imported(result: ValidationResult, package: Path | str) -> ModuleType | None:
    watch = CancelWatch()
    try:
        module = import_package(package) if isinstance(package, Path) else importlib.import_module(package)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # module code
        if watch.cancelled:
            raise
        missing = isinstance(error, ImportError) and error.path == str(package)
        reason = f"nothing to import: {error}" if missing else f"importing `{_name(package)}` raised {described(error)}"
        result.fail("module_importable", reason)
        return None
    result.succeed("module_importable", f"`{_name(package)}` can be imported")
    return module


def _name(package: Path | str) -> str:
    return name_of(package) if isinstance(package, Path) else package


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


def _turn(name: str) -> asyncio.Lock:
    """Return the lock of a package's name: two packages of one name cannot be imported side by side."""
    return _turns.setdefault(asyncio.get_running_loop(), {}).setdefault(name, asyncio.Lock())


def find_mount(module: ModuleType, package: Path, entry_point: str | None) -> Callable[..., Any]:
    """Return the function that mounts the module.

    The declarations are read from the project's own `pyproject.toml`, in the package or around it, also around a `src`,
    never from the installed distributions.

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
        for group in ENTRY_POINT_GROUPS:
            value = project.get("project", {}).get("entry-points", {}).get(group, {}).get(entry_point)
            if isinstance(value, str):
                return value
    return None
