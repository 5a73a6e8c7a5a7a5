"""A folder that an author names: the module in it, its kind, and where its repository begins.

Everything is read as data; a folder without a module is an error that says what was looked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from paddock.authoring.module_name import FOLDER_PREFIX, KINDS
from paddock.errors import KindError
from paddock.plan.model import Kind
from paddock_sources import SourceError
from paddock_sources.manifest.permission_request import PermissionRequest
from paddock_sources.manifest.read import ModuleManifest, declared_ids

# Words in a name that reveal the kind, in the order of the contract's own command.
_PARTS: Final[tuple[tuple[str, Kind], ...]] = (
    ("provider-", "provider"),
    ("tool-", "tool"),
    ("hooks-", "hook"),
    ("loop-", "orchestrator"),
    ("context-", "context"),
)


def path_error(
    path: Path,
    problem: str,
    *,
    code: str = "ModulePathError",
    detail: Iterable[str] = (),
    hints: Iterable[str] = (),
) -> KindError:
    """Return the error for a path without a usable module; `problem` says why."""
    return KindError(code, f"`{path}`: {problem}", detail=detail, hints=hints)


@dataclass(frozen=True, slots=True)
class ModuleFolder:
    """A module on its author's disk; every path is absolute, without links.

    `root` is its repository, or its package where there is no more. `declared_kind` is the kind in its code, `request`
    the permissions that its manifest asks for.
    """

    root: Path
    package_dir: Path
    import_root: Path
    module_id: str
    declared_kind: str | None
    request: PermissionRequest | None

    @classmethod
    def at(cls, path: Path) -> Self:
        """Return the module whose repository or package is at `path`.

        Raises:
            KindError: there is no module.
        """
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:
            said = getattr(error, "strerror", None) or "it leads nowhere"
            raise path_error(path, said.lower()) from error
        if not real.is_dir():
            raise path_error(path, "it is no folder", hints=["name the module's repository, or its package"])
        try:
            return cls._read(real)
        except SourceError as error:
            raise path_error(path, error.summary, detail=error.detail, hints=error.hints) from error

    @classmethod
    def _read(cls, real: Path) -> Self:
        root = repository_of(real)
        # A path to a package means that package, even if its repository contains several.
        module_id = declared_ids(real, real.name)[0]
        manifest = ModuleManifest.read(real, module_id)
        return cls(
            root,
            manifest.package_dir,
            manifest.import_root,
            module_id,
            manifest.declared_kind,
            PermissionRequest.read(root),
        )

    def kind(self, named: Kind | None = None) -> Kind:
        """Return the kind that is `named`, else the one its code declares, else the one in its names.

        Raises:
            KindError: none of these is a kind that is validated.
        """
        if named is not None:
            return named
        if self.declared_kind is not None:
            if self.declared_kind not in KINDS:
                raise path_error(
                    self.root,
                    f"it is a {self.declared_kind}, which is not run as a module",
                    hints=[f"kinds are {', '.join(KINDS)}"],
                )
            return self.declared_kind
        for name in (self.root.name, self.module_id, self.package_dir.name):
            if (kind := _kind_of_name(name)) is not None:
                return kind
        parts = ", ".join(f"`{part}`" for part, _ in _PARTS)
        raise path_error(
            self.root,
            "it does not say what kind of module it is",
            code="KindUnknownError",
            detail=[f"its name has none of {parts} in it, and its code no `__amplifier_module_type__`"],
            hints=[f"say it: `--type` takes {', '.join(KINDS)}"],
        )


def _kind_of_name(name: str) -> Kind | None:
    bare = name.replace("_", "-").removeprefix(FOLDER_PREFIX)
    begun = (kind for part, kind in _PARTS if bare.startswith(part))
    return next(iter((*begun, *(kind for part, kind in _PARTS if part in bare))), None)


def repository_of(folder: Path) -> Path:
    """Return the project folder of a package; any other folder is its own."""
    if not (folder / "__init__.py").is_file() or (folder / "pyproject.toml").is_file():
        return folder
    around = (folder.parent, folder.parent.parent) if folder.parent.name == "src" else (folder.parent,)
    return next((place for place in around if (place / "pyproject.toml").is_file()), folder)
