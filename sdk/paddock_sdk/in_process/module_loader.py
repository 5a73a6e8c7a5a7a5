"""Turn a module's id into a closure that mounts it, in this process.

With a resolver at the coordinator's `module-source-resolver`, the code is the resolver's answer. It is checked, mounted
once on a mock coordinator to see that it keeps the contract of its kind, and only then handed out. Without a resolver,
or where the resolver does not know the module, the installed one is used unchecked: by entry point, then by the
package's name. A process holds one package of a name, so a loaded module keeps its place. Loading runs the module's
code.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from paddock_sdk.contract.module_sources import ModuleNotFoundError as SourceNotFoundError
from paddock_sdk.in_process.module_code import (
    check_contract_requirement,
    declared_kind,
    import_installed,
    import_package,
    mount_at,
    mount_of,
)
from paddock_sdk.in_process.module_package import (
    ModulePackage,
    entry_points,
    installed_modules,
    modules_in,
    packages_of,
)
from paddock_sdk.kernel.execution import takes_keyword
from paddock_sdk.kernel.loading import ModuleValidationError, Mount, ReadyQueue
from paddock_sdk.kernel.mounts import RESOLVER_POINT
from paddock_sdk.kernel.settle import safe_exception_str, settled
from paddock_sdk.kernel.startup.entry_point import session_ready_of

if TYPE_CHECKING:
    from paddock_sdk.contract.models import ModuleInfo
    from paddock_sdk.kernel.coordinator import ModuleCoordinator

_log = logging.getLogger(__name__)

_ENTRY_POINT_CHECKS: Final = frozenset({"mount_exists", "mount_signature"})


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A module's own `mount`, and the folder that a resolver gave for it, None for an installed module."""

    mount: Callable[..., Any]
    folder: Path | None
    import_root: Path | None = None


class ModuleLoader(ReadyQueue):
    """Loads modules for the sessions of one process, and queues the functions to call when all are mounted.

    `search_paths` are folders of modules: each in a folder of its own, or just the packages.
    """

    def __init__(
        self, coordinator: ModuleCoordinator | None = None, search_paths: Iterable[str | Path] | None = None
    ) -> None:
        super().__init__()
        self._coordinator = coordinator
        self._search_paths = [Path(path) for path in search_paths or ()]
        self._loaded: dict[str, _Loaded] = {}
        self._added_paths: list[str] = []

    async def discover(self) -> list[ModuleInfo]:
        """Return the modules that can be loaded, each id once: installed modules, then those in the search paths."""
        found: dict[str, ModuleInfo] = {}
        for info in (*installed_modules(), *modules_in(self._search_paths)):
            found.setdefault(info.id, info)
        return list(found.values())

    async def load(
        self,
        module_id: str,
        config: dict[str, Any] | None = None,
        source_hint: Any = None,
        coordinator: ModuleCoordinator | None = None,
        profile_source: Any = None,
    ) -> Mount:
        """Return the closure that mounts the module with `config`; `profile_source` is an older name of `source_hint`.

        Raises:
            ModuleNotFoundError: the contract's: there is no such module.
            ModuleLoadError: its code fails when it is imported.
            ModuleValidationError: it does not keep to the contract of its kind.
        """
        coordinator = self._coordinator if coordinator is None else coordinator
        hint = profile_source if source_hint is None else source_hint
        folder, unresolved = await _resolved(module_id, hint, coordinator)
        loaded = self._loaded.get(module_id)
        if loaded is not None and folder is not None and loaded.folder != folder:
            raise ModuleValidationError(
                f"Module '{module_id}' is loaded already, from {loaded.folder or 'what is installed'}, and is now to "
                f"come from {folder}: one loader keeps one module of an id. Use another loader, in another process",
                reason_code="invalid_module_metadata",
            )
        if loaded is None:
            if folder is None:
                loaded = self._load_installed(module_id, unresolved)
            else:
                package = ModulePackage.find(module_id, folder)
                module = self._imported(package)
                await _validate(package, declared_kind(module_id, module), config or {})
                loaded = _Loaded(mount_of(module_id, module, package.entry_point), folder, package.import_root)
            self._loaded[module_id] = loaded
        elif loaded.import_root is not None:
            self._put_on_path(loaded.import_root)
        return self._closure(module_id, loaded.mount, config or {})

    async def initialize(self, mount: Mount, coordinator: ModuleCoordinator) -> Any:
        """Call a closure that `load` returned, and return the result of the module's `mount`."""
        return await mount(coordinator)

    def cleanup(self) -> None:
        """Remove this loader's additions from the import path; imported modules stay imported."""
        for path in self._added_paths:
            if path in sys.path:
                sys.path.remove(path)
        self._added_paths.clear()

    # From an id to a mount function.

    def _load_installed(self, module_id: str, unresolved: Exception | None) -> _Loaded:
        entry_point = next((one for one in entry_points() if one.name == module_id), None)
        if entry_point is not None:
            return _Loaded(mount_at(module_id, entry_point), None)
        package = next(packages_of(module_id, self._search_paths), None)
        if package is not None:
            mount = mount_of(module_id, self._imported(package), package.entry_point)
            return _Loaded(mount, None, package.import_root)
        try:
            return _Loaded(mount_of(module_id, import_installed(module_id)), None)
        except SourceNotFoundError as error:
            if unresolved is None:
                raise
            raise SourceNotFoundError(f"{error}; nor was its source: {safe_exception_str(unresolved)}") from unresolved

    def _imported(self, package: ModulePackage) -> ModuleType:
        if package.transport != "python":
            raise ModuleValidationError(
                f"Module '{package.module_id}' wants to be run by transport `{package.transport}`; "
                "here, modules are Python",
                reason_code="invalid_module_metadata",
            )
        check_contract_requirement(package.module_id, package.requirements)
        self._put_on_path(package.import_root)
        return import_package(package)

    def _put_on_path(self, folder: Path) -> None:
        path = str(folder)
        if path not in self._added_paths:
            sys.path.insert(0, path)
            self._added_paths.append(path)
            importlib.invalidate_caches()

    def _closure(self, module_id: str, mount: Callable[..., Any], config: dict[str, Any]) -> Mount:
        async def mount_module(coordinator: ModuleCoordinator) -> Any:
            returned = await settled(mount(coordinator, config))
            ready = session_ready_of(mount)
            if ready is not None:
                self.enqueue_on_session_ready(module_id, ready)
            return returned

        return mount_module


async def _resolved(
    module_id: str, source_hint: Any, coordinator: ModuleCoordinator | None
) -> tuple[Path | None, Exception | None]:
    """Return the folder of the module's code, or None with the reason if no resolver knows it."""
    resolver = None if coordinator is None else coordinator.get(RESOLVER_POINT)
    if resolver is None:
        return None, None
    resolve = getattr(resolver, "async_resolve", None) or resolver.resolve
    try:
        # Under both names, where both are taken: resolvers differ in which of the two they read.
        hints = {name: source_hint for name in ("source_hint", "profile_hint") if takes_keyword(resolve, name)}
        source = await settled(resolve(module_id, **hints))
        return Path(await settled(source.resolve())).absolute(), None  # noqa: ASYNC240 - no file is touched
    except SourceNotFoundError as error:
        _log.debug("No source of module %r: %s", module_id, error)
        return None, error


async def _validate(package: ModulePackage, kind: str, config: dict[str, Any]) -> None:
    """Have the validator of its kind check the module; resolvers have no validator.

    Raises:
        ModuleValidationError: a check failed.
    """
    if kind == "resolver":
        return
    # Imported here: the rules of all kinds are a large import, and installed modules are not checked.
    from paddock_sdk.validation import validator_for

    declared = package.module_id if package.entry_point else None
    result = await validator_for(kind).validate(package.path, declared, config)
    if result.passed:
        return
    failed = "; ".join(f"{check.name}: {check.message}" for check in result.errors)
    raise ModuleValidationError(
        f"Module '{package.module_id}' does not keep to the contract of a {kind} ({result.summary()}): {failed}",
        reason_code="invalid_entry_point"
        if any(check.name in _ENTRY_POINT_CHECKS for check in result.errors)
        else "validation_failed",
    )
