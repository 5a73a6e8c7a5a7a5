"""The reference modules that ship with the distribution.

An installed wheel carries them beside this file; a checkout has them in `modules/`. The only special treatment is that
a bare id finds them. Their dependencies are locked and installed like those of any other module.
"""

from __future__ import annotations

from pathlib import Path

from paddock_sources.errors import ManifestError, ModuleIdError, layout_error
from paddock_sources.file import FileSource
from paddock_sources.manifest.read import declares_dependencies
from paddock_sources.module_id import checked_module_id
from paddock_sources.near import near
from paddock_sources.resolution import Resolution


def _shipped_folder() -> Path:
    here = Path(__file__).resolve().parent
    installed = here / "builtin"
    return installed if installed.is_dir() else here.parents[1] / "modules"


class BuiltinSource:
    """The modules in `folder`, one folder each, named as their ids; by default those that were shipped."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else _shipped_folder()

    def list(self) -> tuple[str, ...]:
        """Return the ids of all shipped modules, sorted; empty when the folder is missing."""
        try:
            return tuple(sorted(entry.name for entry in self.folder.iterdir() if self._is_module(entry)))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise ManifestError(self.folder, error.strerror or str(error)) from error

    def resolve(self, module_id: str) -> Resolution:
        """Return where the code of the reference module `module_id` is.

        Raises:
            SourceError: there is no such module, or its folder cannot be read.
        """
        folder = self.folder / checked_module_id(module_id)
        if not folder.is_dir():
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
        return declares_dependencies(self.folder / checked_module_id(module_id))

    @staticmethod
    def _is_module(entry: Path) -> bool:
        try:
            checked_module_id(entry.name)
        except ModuleIdError:
            return False
        return (entry / "pyproject.toml").is_file()
