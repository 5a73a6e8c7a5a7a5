"""A module in a folder of this machine: its repository root, or the package itself.

With a cache, the module runs as it was when it was resolved: this file reads, and a worker gets, only a copy.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paddock_sources.errors import SourceError
from paddock_sources.manifest.moved import telling_where_it_is
from paddock_sources.manifest.read import ModuleManifest
from paddock_sources.module_id import checked_module_id, kind_of_id
from paddock_sources.resolution import Resolution
from paddock_sources.tree import HeldFolder, SourceTree

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache


@dataclass(frozen=True, slots=True)
class FileSource:
    """The folder at `folder`; `source` is the text that its resolutions carry, by default the real path.

    With a `cache`, the folder is copied there, unless it runs `live`: in place, with all later changes. With a
    `place`, another folder under the same name is refused.
    """

    folder: Path
    _: KW_ONLY
    source: str | None = None
    cache: SourceCache | None = None
    live: bool = False
    place: HeldFolder | None = None

    def resolve(self, module_id: str) -> Resolution:
        """Return where the code of `module_id` is: inside the folder, or inside its copy.

        Raises:
            SourceError: the folder is missing, is not the one at `place`, is unsafe to read, holds no such module, or
                one of a refused kind.
        """
        module_id = checked_module_id(module_id)
        with nullcontext() if self.place is None else telling_where_it_is(self.place.path):
            root, tree = self._code()
            manifest = ModuleManifest.read(root, module_id)
        if manifest.declared_kind == "resolver":
            raise SourceError(
                f"module `{module_id}` declares itself a `{manifest.declared_kind}`, which is not run as a module",
                code="RefusedKindError",
                hints=["a resolver decides which code is trusted: it belongs to the application, not to a plan"],
            )
        real = self.folder.resolve() if self.place is None else self.place.path
        return Resolution(
            module_id=module_id,
            source=self.source or str(_repository_of(real, manifest)),
            root=manifest.root,
            package=manifest.module,
            package_dir=manifest.package_dir,
            import_root=manifest.import_root,
            kind=manifest.declared_kind or kind_of_id(module_id),
            declared_kind=manifest.declared_kind,
            version=manifest.version,
            attribute=manifest.attribute,
            tree=tree,
            is_live=self.live,
        )

    def _code(self) -> tuple[Path, str]:
        """Return the folder to read, and the digest of the tree it is in, if it is a copy."""
        if self.cache is None or self.live:
            if self.place is not None:
                self.place.check()
            return self.folder, ""
        from paddock_sources.snapshot import FolderCopy

        copy = FolderCopy.of(SourceTree(self.folder).root, self.place)
        entry = copy.into(self.cache)
        return entry.root / copy.name, entry.digest


def _repository_of(root: Path, manifest: ModuleManifest) -> Path:
    """Return the folder that rules match the code by: the repository's, also where its package was named."""
    if manifest.package_dir != manifest.root:
        return root
    around = (root.parent, root.parent.parent)  # flat, or below `src`
    return next((place for place in around if (place / "pyproject.toml").is_file()), root)
