"""List the modules that can be loaded: installed ones, and those in folders of modules. None is imported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from paddock_sdk.in_process.module_package import (
    DISTRIBUTION_PREFIX,
    PACKAGE_PREFIX,
    ModulePackage,
    display_name,
    distribution_name,
    kind_by_id,
    package_name,
)
from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT, ModuleValidationError
from paddock_sdk.kernel.startup.entry_point import ENTRY_POINT_GROUPS

if TYPE_CHECKING:
    from paddock_sdk.contract.models import ModuleInfo

__all__ = ["entry_points", "installed_modules", "modules_in", "packages_of", "requirements_of"]

_log = logging.getLogger(__name__)


def entry_points() -> Iterator[metadata.EntryPoint]:
    """Yield the entry points of installed modules."""
    for group in ENTRY_POINT_GROUPS:
        yield from metadata.entry_points(group=group)


def requirements_of(distribution: str) -> list[str]:
    """Return the requirements of an installed distribution; empty if there is none of that name."""
    try:
        return metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return []


def packages_of(module_id: str, search_paths: Iterable[Path]) -> Iterator[ModulePackage]:
    """Yield the packages of one module in folders of modules.

    Raises:
        ModuleValidationError: a folder has the module's name and holds no module.
    """
    for folder in search_paths:
        for place in (folder / distribution_name(module_id), folder / module_id):
            if place.is_dir():
                yield ModulePackage.find(module_id, place)
        if (folder / package_name(module_id) / "__init__.py").is_file():
            yield ModulePackage.find(module_id, folder / package_name(module_id))


def installed_modules() -> Iterator[ModuleInfo]:
    """Yield the metadata of installed modules."""
    for entry_point in entry_points():
        distribution = getattr(entry_point, "dist", None)  # which one that was made by hand has not
        if distribution is None:
            yield _info(entry_point.name, None, None)
        else:
            yield _info(entry_point.name, distribution.version, distribution.metadata["Summary"])


def modules_in(search_paths: Iterable[Path]) -> Iterator[ModuleInfo]:
    """Yield the metadata of the modules in folders of modules; unreadable ones are left out."""
    for folder in search_paths:
        for place in sorted(path for path in folder.glob("*") if path.is_dir()):
            if place.name.startswith(DISTRIBUTION_PREFIX):
                module_id = place.name.removeprefix(DISTRIBUTION_PREFIX)
            elif place.name.startswith(PACKAGE_PREFIX):
                module_id = place.name.removeprefix(PACKAGE_PREFIX).replace("_", "-")
            else:
                continue
            try:
                package = ModulePackage.find(module_id, place)
            except ModuleValidationError as error:
                _log.warning("Left out: %s", error)
            else:
                yield _info(module_id, package.version, package.description)


def _info(module_id: str, version: str | None, description: str | None) -> ModuleInfo:
    from paddock_sdk.contract.models import ModuleInfo

    kind = kind_by_id(module_id)
    return ModuleInfo(
        id=module_id,
        name=display_name(module_id),
        version=version or "0.0.0",
        type=kind,  # type: ignore[arg-type]  # one of the table's keys
        mount_point=TYPE_TO_MOUNT_POINT[kind],
        description=description or "",
    )
