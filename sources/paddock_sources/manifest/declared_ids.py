"""The ids that code goes by, for whoever names only where it is: what it declares, else what it is called."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from paddock_sources.errors import ModuleIdError
from paddock_sources.manifest.read import ModuleManifest
from paddock_sources.module_id import PACKAGE_PREFIX, checked_module_id

_REPOSITORY_PREFIX = "amplifier-module-"
_NAMELESS = "tool"  # the id of a module in a folder whose name can be none


def declared_ids(root: Path, name: str) -> tuple[str, ...]:
    """Return the ids of the modules in the folder `root`, of a repository, folder or package that is called `name`.

    Where it declares several, the one that it is named for is the first.

    Raises:
        SourceError: the folder holds no module.
    """
    named = id_of_name(name)
    manifest = ModuleManifest.read(root, named)
    declared = tuple(manifest.entry_points) or (_id_of_package(manifest.package, named),)
    return (named, *(one for one in declared if one != named)) if named in declared else declared


def id_of_name(name: str) -> str:
    """Return the id that a repository, folder or package of this name suggests."""
    suggested = PurePosixPath(name).name.removesuffix(".git").replace("_", "-").removeprefix(_REPOSITORY_PREFIX)
    try:
        return checked_module_id(suggested)
    except ModuleIdError:
        return _NAMELESS


def _id_of_package(package: str, otherwise: str) -> str:
    return package.removeprefix(PACKAGE_PREFIX).replace("_", "-") if package.startswith(PACKAGE_PREFIX) else otherwise
