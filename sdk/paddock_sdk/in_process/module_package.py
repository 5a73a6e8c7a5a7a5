"""The modules that can be loaded, installed ones and those in folders, and the code of one on disk; none is imported.

A module's folder is its package, or holds `amplifier_module_<id>`, or any one package of that family. The files beside
the package are read without being run.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from paddock_sdk.kernel.loading import TYPE_TO_MOUNT_POINT, ModuleValidationError
from paddock_sdk.kernel.startup.entry_point import ENTRY_POINT_GROUPS

if TYPE_CHECKING:
    from paddock_sdk.contract.models import ModuleInfo

_log = logging.getLogger(__name__)

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


@dataclass(frozen=True, slots=True)
class ModulePackage:
    """A package with its folder, and its project's declarations if there are any.

    `transport` is how the code must be run, from `amplifier.toml`. `requirements` are its dependencies. `entry_point`
    is the place of its mounting function in the package, from the project's declaration.
    """

    module_id: str
    path: Path
    transport: str = "python"
    version: str = "0.0.0"
    description: str = ""
    requirements: tuple[str, ...] = ()
    entry_point: str | None = None

    @property
    def name(self) -> str:
        """The name that the package is imported by."""
        return self.path.name

    @property
    def import_root(self) -> Path:
        """The folder that has to be on the import path."""
        return self.path.parent

    @classmethod
    def find(cls, module_id: str, folder: Path) -> ModulePackage:
        """Return the module's package in `folder`.

        Raises:
            ModuleValidationError: there is no package in it, or the files beside it cannot be read.
        """
        if not folder.is_dir():
            raise ModuleValidationError(
                f"Module '{module_id}' should be in {folder}, which is no folder", reason_code="missing_source"
            )
        path = next(_packages(module_id, folder), None)
        if path is None:
            raise ModuleValidationError(
                f"Module '{module_id}': {folder} holds no package; expected `{package_name(module_id)}/__init__.py` "
                f"in it, or another folder of the name `{PACKAGE_PREFIX}…` with an `__init__.py`",
                reason_code="invalid_package_layout",
            )
        # Beside the package; where the folder is the package itself, also one level up, as in a checkout.
        places = (folder,) if path != folder else (folder, folder.parent)
        module = _table(_read(module_id, places, "amplifier.toml"), "module")
        project = _table(_read(module_id, places, "pyproject.toml"), "project")
        groups = _table(project, "entry-points")
        declared = next(filter(None, (_text(_table(groups, group), module_id) for group in ENTRY_POINT_GROUPS)), "")
        home = declared.partition(":")[0].strip()
        return cls(
            module_id,
            path,
            transport=_text(module, "transport") or "python",
            version=_text(project, "version") or "0.0.0",
            description=_text(project, "description") or "",
            requirements=tuple(text for text in _list(project, "dependencies") if isinstance(text, str)),
            entry_point=declared if home == path.name or home.startswith(f"{path.name}.") else None,
        )


def resolve_module(path: str | Path) -> dict[str, str]:
    """Return how the module in a folder must be run, the kind its name suggests, and its package's name.

    Raises:
        ModuleValidationError: it holds no package, or the files beside it cannot be read.
    """
    folder = Path(path)
    module_id = folder.name.removeprefix(DISTRIBUTION_PREFIX).removeprefix(PACKAGE_PREFIX).replace("_", "-")
    package = ModulePackage.find(module_id, folder)
    return {"transport": package.transport, "module_type": kind_by_id(module_id), "package_name": package.name}


def _packages(module_id: str, folder: Path) -> Iterator[Path]:
    for path in (folder, folder / package_name(module_id), *sorted(folder.glob(f"{PACKAGE_PREFIX}*"))):
        if (path / "__init__.py").is_file():
            yield path


def _read(module_id: str, places: tuple[Path, ...], name: str) -> dict[str, Any]:
    path = next((place / name for place in places if (place / name).is_file()), None)
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:  # a TOML error is a ValueError, and so is text that is not UTF-8
        raise ModuleValidationError(
            f"Module '{module_id}': {path} cannot be read: {error}", reason_code="invalid_module_metadata"
        ) from error


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    table = content.get(name)
    return table if isinstance(table, dict) else {}


def _text(table: dict[str, Any], key: str) -> str | None:
    value = table.get(key)
    return value if isinstance(value, str) else None


def _list(table: dict[str, Any], key: str) -> list[Any]:
    value = table.get(key)
    return value if isinstance(value, list) else []


def kind_by_id(module_id: str) -> str:
    """Return the kind that an id suggests; a tool where it suggests none.

    A declaration in the code takes precedence: callers that have imported the code look there first.
    """
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
