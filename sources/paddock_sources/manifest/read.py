"""The modules that a folder holds, and their declarations, read as data.

A folder is a package or a project. A project may hold several modules: `pyproject.toml` gives its name, its version and
an entry point for each module. A module's package is searched as the contract does; the syntax tree of `__init__.py`
gives the declared kind. Nothing is imported or executed. A file that cannot be read safely raises a `SourceError`; a
merely absent value is None.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Self

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
_MEND = "write that package, or take the entry point out of `pyproject.toml`"
_OTHER_ID = 'name one of these as the module, or add an entry point: `[project.entry-points."amplifier.modules"]`'
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
        return HeldModules.read(root).manifest(module_id)


@dataclass(frozen=True, slots=True)
class HeldModules:
    """The modules in a folder, which the rest of the code asks for them.

    `entry_points` maps the ids that its project declares to their targets, of both groups. A folder without any has one
    module, whose id is in the name of its package. `name` and `version` are the distribution's.
    """

    tree: SourceTree
    entry_points: Mapping[str, str]
    name: str | None = None
    version: str | None = None

    @classmethod
    def read(cls, root: Path) -> Self:
        """Return what the project file in the folder `root` says; nothing where there is none.

        Raises:
            ManifestError: the file is malformed, too large, or outside the folder; or two modules have one id.
        """
        tree = SourceTree(root)
        content = tree.read("pyproject.toml", limit_bytes=_MAX_PYPROJECT_BYTES)
        return cls(tree, *_declared(content or b"", tree.root / "pyproject.toml"))

    def ids(self, name: str) -> tuple[str, ...]:
        """Return the ids of the modules; `name` is that of their repository, folder or package.

        Of several, the one that the folder is named for is the first, and none is looked for: one may lack its package.

        Raises:
            SourceError: the folder holds no module.
        """
        named, declared = id_of_name(name), tuple(self.entry_points)
        if len(declared) < 2:
            package = self.manifest(declared[0] if declared else named).package
            own = (
                package.removeprefix(PACKAGE_PREFIX).replace("_", "-") if package.startswith(PACKAGE_PREFIX) else named
            )
            return declared or (own,)
        return (named, *(one for one in declared if one != named)) if named in declared else declared

    def manifest(self, module_id: str) -> ModuleManifest:
        """Return the manifest of one of the modules; a folder with a single module also has it under another id.

        Raises:
            SourceError: no package, or several and none that stands out, or none at the module's entry point.
            ManifestError: a file that is needed is malformed, too large, or outside the folder.
        """
        tree = self.tree
        package = _find_package(tree, module_id, self.entry_points)
        package_dir = (tree.root / package).resolve()
        inside, attribute = _mounting(tree, package, self.entry_points.get(module_id, ""))
        file = os.path.join(package, inside)
        outline = PackageOutline.of(tree.read(file, limit_bytes=_MAX_INIT_BYTES) or b"")
        name = (tree.root / package).name
        parts = Path(inside).with_suffix("").parts
        return ModuleManifest(
            root=tree.root,
            package=name,
            package_dir=package_dir,
            import_root=(tree.root / package).parent,
            name=self.name,
            version=self.version,
            entry_points=self.entry_points,
            module=".".join([name, *(parts[:-1] if parts[-1] == "__init__" else parts)]),
            attribute=attribute,
            declared_kind=_checked_kind(outline.declared_kind, tree.root / file),
            defines_mount=outline.defines_mount,
        )


def names_module(root: Path, module_id: str) -> bool:
    """Whether the project file in a folder has the id of a module anywhere: to parse each of many takes seconds.

    Raises:
        ManifestError: the file is too large, or outside the folder.
    """
    return module_id.encode() in (SourceTree(root).read("pyproject.toml", limit_bytes=_MAX_PYPROJECT_BYTES) or b"")


@lru_cache(maxsize=8)  # each session reads the files of its modules, and mostly finds the same
def _declared(content: bytes, path: Path) -> tuple[Mapping[str, str], str | None, str | None]:
    """Return the entry points, the name and the version that a project file says; `path` names it in errors."""
    try:
        project = read_toml(content).get("project", {})
    except TomlError as error:
        raise ManifestError(path, f"it is {error.problem}") from error
    if not isinstance(project, dict):
        raise ManifestError(path, "`project` is not a table")
    return _entry_points(project, path), _text_or_none(project, "name"), _text_or_none(project, "version")


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
            if _target(found.setdefault(name, target)) != _target(target):
                raise ManifestError(path, f"two modules have the id `{name}`: `{found[name]}` and `{target}`")
    return MappingProxyType(found)


def _target(entry_point: str) -> tuple[str, str, str]:
    """Return the package that an entry point names, the place in it, dotted, and the function there."""
    found = _ENTRY_POINT.fullmatch(entry_point)
    return (found[2], found[1], found[3] or "mount") if found is not None else ("", "", "mount")


def _find_package(tree: SourceTree, module_id: str, entry_points: Mapping[str, str]) -> str:
    if tree.root.name.isidentifier() and tree.is_package("."):
        return "."
    for package in _expected_packages(module_id, entry_points):
        if tree.is_package(package):
            return package
    expected = [f"`{place}/__init__.py`" for place in _expected_packages(module_id, entry_points)]
    missing = f"its entry point names `{entry_points.get(module_id)}`, and that package is missing"
    if module_id in entry_points and len(entry_points) > 1:
        raise layout_error(module_id, tree.root, missing, looked_at=expected, hints=[_MEND])
    candidates = [
        os.path.join(folder, name)
        for folder in ("", "src")
        for name in tree.names(folder or ".")
        if name.startswith(PACKAGE_PREFIX) and name.isidentifier() and tree.is_package(os.path.join(folder, name))
    ]
    if len(candidates) == 1:
        return candidates[0]
    looked_at = [*expected, f"`{PACKAGE_PREFIX}*/__init__.py`"]
    if entry_points and module_id not in entry_points:
        problem = f"the modules in it are {', '.join(entry_points)}"
        raise layout_error(module_id, tree.root, problem, looked_at=looked_at, hints=[_OTHER_ID])
    if module_id in entry_points and not candidates:
        raise layout_error(module_id, tree.root, missing, looked_at=looked_at, hints=[_MEND])
    if candidates:
        problem = f"several packages could be it ({', '.join(candidates)})"
    else:
        problem = "there is no package in it"
    raise layout_error(module_id, tree.root, problem, looked_at=looked_at)


def _expected_packages(module_id: str, entry_points: Mapping[str, str]) -> Iterator[str]:
    names = [package_of_id(module_id), _target(entry_points.get(module_id, ""))[0]]
    for name in dict.fromkeys(filter(None, names)):
        yield name
        yield os.path.join("src", name)


def _mounting(tree: SourceTree, package: str, target: str) -> tuple[str, str]:
    """Return the file of a package that an entry point means, relative to it, and the function in it."""
    home, place, attribute = _target(target)
    if home != (tree.root / package).name:
        return "__init__.py", "mount"
    attribute = attribute if attribute.isidentifier() else "mount"
    path = os.path.join(*place.split(".")[1:], "") if "." in place else ""
    for file in (f"{path[:-1]}.py", os.path.join(path, "__init__.py")) if path else ():
        if tree.find(os.path.join(package, file)) is not None:
            return file, attribute
    return "__init__.py", attribute


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


def id_of_name(name: str) -> str:
    """Return the id that a repository, folder or package of this name suggests."""
    suggested = PurePosixPath(name).name.removesuffix(".git").replace("_", "-").removeprefix(_REPOSITORY_PREFIX)
    try:
        return checked_module_id(suggested)
    except ModuleIdError:
        return _NAMELESS
