"""The reference modules that ship with the distribution.

An installed wheel carries them beside this file; a checkout has them in `modules/`. The only special treatment is that
a bare id finds them. Their dependencies are locked and installed like those of any other module.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from paddock_sources.errors import ManifestError, layout_error
from paddock_sources.file import FileSource
from paddock_sources.manifest.read import HeldModules, declares_dependencies
from paddock_sources.module_id import checked_module_id, package_of_id
from paddock_sources.resolution import Resolution
from paddock_sources.similar_names import near


def _shipped_folder() -> Path:
    here = Path(__file__).resolve().parent
    installed = here / "builtin"
    return installed if installed.is_dir() else here.parents[1] / "modules"


class BuiltinSource:
    """The modules of the project folders in `folder`; by default those that were shipped. A project may hold several.

    What a folder holds is read once, and a module that was found is not looked for again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else _shipped_folder()
        self._held: dict[Path, tuple[str, ...]] = {}
        self._homes: dict[str, Path] = {}
        self._with_dependencies: dict[Path, bool] = {}

    def list(self) -> tuple[str, ...]:
        """Return the ids of all shipped modules, sorted; empty when the folder is missing.

        Raises:
            SourceError: a project cannot be read, or two of them hold a module of one id.
        """
        homes: dict[str, Path] = {}
        for folder in self._projects():
            for module_id in self._ids(folder):
                if homes.setdefault(module_id, folder) != folder:
                    raise ManifestError(self.folder, f"`{homes[module_id]}` and `{folder}` both hold `{module_id}`")
        return tuple(sorted(homes))

    def has(self, module_id: str) -> bool:
        """Return whether a module of that id is shipped.

        Raises:
            SourceError: a project cannot be read.
        """
        return self._home(module_id) is not None

    def resolve(self, module_id: str) -> Resolution:
        """Return where the code of the reference module `module_id` is.

        Raises:
            SourceError: there is no such module, or its folder cannot be read.
        """
        folder = self._home(checked_module_id(module_id))
        if folder is None:
            shipped = self.list()
            close = near(module_id, shipped)
            hint = f"did you mean `builtin:{close[0]}`?" if close else f"shipped are: {', '.join(shipped) or 'none'}"
            raise layout_error(module_id, self.folder, "no module of that id is shipped", hints=[hint])
        return FileSource(folder, source=f"builtin:{module_id}").resolve(module_id)

    def has_dependencies(self, module_id: str) -> bool:
        """Return whether the reference module `module_id` is shipped and depends on anything.

        Raises:
            SourceError: its project file cannot be read.
        """
        folder = self._home(checked_module_id(module_id))
        if folder is None:
            return False
        if folder not in self._with_dependencies:
            self._with_dependencies[folder] = declares_dependencies(folder)
        return self._with_dependencies[folder]

    def _home(self, module_id: str) -> Path | None:
        """Return the project folder of a module; the one where its package is, by its name, is asked first."""
        if module_id not in self._homes:
            package = package_of_id(module_id)
            likely_first = sorted(self._projects(), key=lambda folder: not (folder / package).is_dir())
            found = next((folder for folder in likely_first if module_id in self._ids(folder)), None)
            if found is None:
                return None
            self._homes[module_id] = found
        return self._homes[module_id]

    def _ids(self, folder: Path) -> tuple[str, ...]:
        if folder not in self._held:
            self._held[folder] = HeldModules.read(folder).ids(folder.name)
        return self._held[folder]

    def _projects(self) -> Sequence[Path]:
        try:
            return sorted(entry for entry in self.folder.iterdir() if (entry / "pyproject.toml").is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ManifestError(self.folder, error.strerror or str(error)) from error


def shipped() -> BuiltinSource:
    """Return the reference modules that were shipped; what their folders hold is read once in a process."""
    return _shipped_in(_shipped_folder())


@cache
def _shipped_in(folder: Path) -> BuiltinSource:
    return BuiltinSource(folder)
