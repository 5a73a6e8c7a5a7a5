"""A module folder's declarations about the module, read as data.

The package is searched as the contract does; `pyproject.toml` gives name, version and entry points, the syntax tree of
`__init__.py` the declared kind. Nothing is imported or executed. A file that cannot be read safely raises a
`SourceError`; a merely absent value is None.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from paddock_sources.bounded_toml import TomlError, read_toml
from paddock_sources.errors import ManifestError, ModuleIdError, layout_error
from paddock_sources.manifest.outline import PackageOutline
from paddock_sources.module_id import PACKAGE_PREFIX, checked_module_id, package_of_id
from paddock_sources.tree import SourceTree

ENTRY_POINT_GROUPS = ("amplifier.modules", "amplifier.tools")
MODULE_KINDS = ("tool", "provider", "hook", "orchestrator", "context", "resolver")

_MAX_PYPROJECT_BYTES = 256 * 1024
_MAX_INIT_BYTES = 2 * 1024 * 1024  # too large for a source file; the outline parses much less
_MAX_SHOWN = 80  # characters of an invalid kind
_ENTRY_POINT = re.compile(r"\s*(([A-Za-z_]\w*)(?:\.\w+)*)\s*(?::\s*([\w.]+)\s*)?(?:\[.*\]\s*)?", re.ASCII)
_REPOSITORY_PREFIX = "amplifier-module-"
_NAMELESS = "tool"  # the id of a module in a folder whose name can be none


@dataclass(frozen=True, slots=True)
class ModuleManifest:
    """`name` and `version` are the distribution's; `entry_points` maps module ids to their targets, of both groups.

    `import_root` is the folder whose presence on `sys.path` makes `package` importable. `attribute` in `module` mounts
    the module; `module` is the package itself unless its entry point names one inside. `defines_mount` is None when it
    is unknown.
    """

    root: Path
    package: str
    package_dir: Path
    import_root: Path
    name: str | None
    version: str | None
    entry_points: Mapping[str, str]
    module: str
    attribute: str
    declared_kind: str | None
    defines_mount: bool | None

    @staticmethod
    def read(root: Path, module_id: str) -> ModuleManifest:
        """Return the manifest of the module whose repository root or package folder is `root`.

        Raises:
            SourceError: no package, or several and none that stands out.
            ManifestError: a file that is needed is malformed, too large, or outside the folder.
        """
        tree = SourceTree(root)
        project = _read_project(tree)
        entry_points = _entry_points(project, tree.root / "pyproject.toml")
        package = _find_package(tree, module_id, entry_points)
        package_dir = (tree.root / package).resolve()
        inside, attribute = _mounting(tree, package, entry_points.get(module_id, ""))
        file = os.path.join(package, inside)
        outline = PackageOutline.of(tree.read(file, limit_bytes=_MAX_INIT_BYTES) or b"")
        name = (tree.root / package).name
        return ModuleManifest(
            root=tree.root,
            package=name,
            package_dir=package_dir,
            import_root=(tree.root / package).parent,
            name=_text_or_none(project, "name"),
            version=_text_or_none(project, "version"),
            entry_points=entry_points,
            module=".".join([name, *_dotted(inside)]),
            attribute=attribute,
            declared_kind=_checked_kind(outline.declared_kind, tree.root / file),
            defines_mount=outline.defines_mount,
        )


def _read_project(tree: SourceTree) -> Mapping[str, Any]:
    content = tree.read("pyproject.toml", limit_bytes=_MAX_PYPROJECT_BYTES)
    if content is None:
        return {}
    path = tree.root / "pyproject.toml"
    try:
        project = read_toml(content.decode("utf-8")).get("project", {})
    except UnicodeDecodeError as error:
        raise ManifestError(path, "it is not UTF-8 text") from error
    except TomlError as error:
        raise ManifestError(path, f"it is {error.problem}") from error
    if not isinstance(project, dict):
        raise ManifestError(path, "`project` is not a table")
    return project


def _entry_points(project: Mapping[str, Any], path: Path) -> Mapping[str, str]:
    groups = project.get("entry-points", {})
    if not isinstance(groups, dict):
        raise ManifestError(path, "`project.entry-points` is not a table")
    found: dict[str, str] = {}
    for group in ENTRY_POINT_GROUPS:
        entries = groups.get(group, {})
        if not isinstance(entries, dict):
            raise ManifestError(path, f'`project.entry-points."{group}"` is not a table')
        for name, target in entries.items():
            if not isinstance(target, str) or not _ENTRY_POINT.fullmatch(target):
                raise ManifestError(path, f"entry point `{name}` of `{group}` does not name a package")
            found.setdefault(name, target)
    return MappingProxyType(found)


def _find_package(tree: SourceTree, module_id: str, entry_points: Mapping[str, str]) -> str:
    if tree.root.name.isidentifier() and tree.is_package("."):
        return "."
    for package in _expected_packages(module_id, entry_points):
        if tree.is_package(package):
            return package
    candidates = [
        os.path.join(folder, name)
        for folder in ("", "src")
        for name in tree.names(folder or ".")
        if name.startswith(PACKAGE_PREFIX) and name.isidentifier() and tree.is_package(os.path.join(folder, name))
    ]
    if len(candidates) == 1:
        return candidates[0]
    looked_at = [f"`{place}/__init__.py`" for place in _expected_packages(module_id, entry_points)]
    looked_at.append(f"`{PACKAGE_PREFIX}*/__init__.py`")
    if candidates:
        problem = f"several packages could be it ({', '.join(candidates)})"
    else:
        problem = "there is no package in it"
    raise layout_error(module_id, tree.root, problem, looked_at=looked_at)


def _expected_packages(module_id: str, entry_points: Mapping[str, str]) -> Iterator[str]:
    names = [package_of_id(module_id)]
    target = _ENTRY_POINT.fullmatch(entry_points.get(module_id, ""))
    if target is not None and target[2] not in names:
        names.append(target[2])
    for name in names:
        yield name
        yield os.path.join("src", name)


def _mounting(tree: SourceTree, package: str, target: str) -> tuple[str, str]:
    """Return the file of a package that an entry point means, relative to it, and the function in it."""
    found = _ENTRY_POINT.fullmatch(target)
    if found is None or found[2] != (tree.root / package).name:
        return "__init__.py", "mount"
    attribute = found[3] if found[3] and found[3].isidentifier() else "mount"
    path = os.path.join(*found[1].split(".")[1:], "") if "." in found[1] else ""
    for file in (f"{path[:-1]}.py", os.path.join(path, "__init__.py")) if path else ():
        if tree.find(os.path.join(package, file)) is not None:
            return file, attribute
    return "__init__.py", attribute


def _dotted(file: str) -> list[str]:
    parts = list(Path(file).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _checked_kind(declared: object, path: Path) -> str | None:
    if declared is None or (isinstance(declared, str) and declared in MODULE_KINDS):
        return declared
    # Only text is shown: Python refuses to convert a very large integer.
    shown = repr(declared[:_MAX_SHOWN]) if isinstance(declared, str) else f"of type {type(declared).__name__}"
    raise ManifestError(path, f"`__amplifier_module_type__` is {shown}, not one of {', '.join(MODULE_KINDS)}")


def _text_or_none(project: Mapping[str, Any], key: str) -> str | None:
    value = project.get(key)
    return value if isinstance(value, str) else None


def declares_dependencies(root: Path) -> bool:
    """Return whether the project in `root` declares any dependency.

    Raises:
        RequirementsError: its project file cannot be read.
    """
    from paddock_sources.environment.project_file import read_project

    if not (root / "pyproject.toml").is_file():
        return False
    project = read_project(root)
    return bool(project.get("dependencies")) or "dependencies" in project.get("dynamic", ())


def declared_ids(root: Path, name: str) -> tuple[str, ...]:
    """Return the ids of the modules in the folder `root`; `name` is that of its repository, folder or package.

    If it declares several, the one that it is named for is the first.

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
