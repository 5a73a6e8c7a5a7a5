"""A module in a folder of this machine: its repository root, or the package itself."""

from __future__ import annotations

from pathlib import Path

from .errors import RefusedKindError
from .manifest import ModuleManifest
from .module_id import checked_module_id, kind_of_id
from .resolution import Resolution


class FileSource:
    """The folder at `folder`; `source` is the text that its resolutions carry, by default the real path."""

    def __init__(self, folder: Path, *, source: str | None = None) -> None:
        self.folder = folder
        self._source = source

    def resolve(self, module_id: str) -> Resolution:
        """Return where the code of `module_id` is inside the folder.

        Raises:
            SourceError: the folder is missing, unsafe to read, holds no such module, or one of a refused kind.
        """
        module_id = checked_module_id(module_id)
        manifest = ModuleManifest.read(self.folder, module_id)
        if manifest.declared_kind == "resolver":
            raise RefusedKindError(module_id, manifest.declared_kind)
        return Resolution(
            module_id=module_id,
            source=self._source or str(_repository_of(manifest)),
            root=manifest.root,
            package=manifest.package,
            package_dir=manifest.package_dir,
            import_root=manifest.import_root,
            kind=manifest.declared_kind or kind_of_id(module_id),
            declared_kind=manifest.declared_kind,
            version=manifest.version,
        )


def _repository_of(manifest: ModuleManifest) -> Path:
    """Return the folder that rules know the code by: that of the repository, also where its package was named."""
    if manifest.package_dir != manifest.root:
        return manifest.root
    around = (manifest.import_root, manifest.import_root.parent)  # flat, or below `src`
    return next((folder for folder in around if (folder / "pyproject.toml").is_file()), manifest.root)
