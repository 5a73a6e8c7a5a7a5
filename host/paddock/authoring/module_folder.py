"""A folder that an author names: the modules in it, their kinds, and where their repository begins.

Everything is read as data; a folder without a module is an error that says what was looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from paddock.authoring.module_name import FOLDER_PREFIX, KINDS, PREFIXES
from paddock.errors import KindError
from paddock.plan.model import Kind
from paddock_sources import SourceError
from paddock_sources.manifest.moved import hints_beside
from paddock_sources.manifest.permission_request import PermissionRequest
from paddock_sources.manifest.read import HeldModules
from paddock_sources.similar_names import near

_MAX_MEANT: Final = 3

# The kinds that words in a name reveal, in the order of the contract's own command.
_NAMED: Final[tuple[Kind, ...]] = ("provider", "tool", "hook", "orchestrator", "context")


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
    def at(cls, path: Path, module_id: str | None = None) -> Self:
        """Return the module whose repository or package is at `path`; of several, the first unless one is named.

        Raises:
            KindError: there is no module.
        """
        real = _real(path)
        with _told(path):
            # A path to a package means that package, even if its repository contains several.
            held = HeldModules.read(real)
            module_id = module_id or held.ids(real.name)[0]
            manifest, root = held.manifest(module_id), repository_of(real)
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
        for name in (self.module_id, self.package_dir.name, self.root.name):
            if (kind := _kind_of_name(name)) is not None:
                return kind
        parts = ", ".join(f"`{PREFIXES[kind]}`" for kind in _NAMED)
        raise path_error(
            self.root,
            "it does not say what kind of module it is",
            code="KindUnknownError",
            detail=[f"its name has none of {parts} in it, and its code no `__amplifier_module_type__`"],
            hints=[f"say it: `--type` takes {', '.join(KINDS)}"],
        )


def module_ids(path: Path) -> tuple[str, ...]:
    """Return the ids of the modules whose repository or package is at `path`.

    Raises:
        KindError: there is none.
    """
    real = _real(path)
    with _told(path):
        return HeldModules.read(real).ids(real.name)


def _real(path: Path) -> Path:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        said = getattr(error, "strerror", None) or "it leads nowhere"
        raise path_error(path, said.lower(), hints=hints_beside(path) or _meant(path)) from error
    if not real.is_dir():
        raise path_error(
            path, "it is no folder", hints=[f"name the module's repository, or its package: `{path.parent}`"]
        )
    return real


def _meant(path: Path) -> list[str]:
    """Return hints at the modules in a folder that is none itself, or at those with a name like one that is missing."""
    folder = path if path.is_dir() else path.parent
    try:
        names = sorted(one.name for one in folder.iterdir() if one.name.startswith(FOLDER_PREFIX) and one.is_dir())
    except OSError:
        return []
    close = names[:_MAX_MEANT] if folder == path else near(path.name, names)
    return [f"did you mean `{folder / name}`?" for name in close]


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except SourceError as error:
        error.add_hints(hints_beside(path) or _meant(path))
        raise path_error(path, error.summary, detail=error.detail, hints=error.hints) from error


def _kind_of_name(name: str) -> Kind | None:
    bare = name.replace("_", "-").removeprefix(FOLDER_PREFIX)
    begun = (kind for kind in _NAMED if bare.startswith(PREFIXES[kind]))
    return next(iter((*begun, *(kind for kind in _NAMED if PREFIXES[kind] in bare))), None)


def repository_of(folder: Path) -> Path:
    """Return the project folder of a package; any other folder is its own."""
    if not (folder / "__init__.py").is_file() or (folder / "pyproject.toml").is_file():
        return folder
    around = (folder.parent, folder.parent.parent) if folder.parent.name == "src" else (folder.parent,)
    return next((place for place in around if (place / "pyproject.toml").is_file()), folder)
