"""The paths that no module may change, whatever it is granted: modules' code, Paddock's own files, the session's files.

A grant to write to one of these is refused. A grant around one leaves it out, by a mount over it; a level without
mounts cannot leave anything out, and refuses the grant as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from paddock.plan.problems import NotAcceptedError
from paddock.policy.path_walk import GrantedPath
from paddock_sources import Resolution

_OF_PADDOCK = "which Paddock runs from"
_OF_SESSION = "which the session depends on"


@dataclass(frozen=True, slots=True)
class ModuleCode:
    """Where a module's code is: all of it below `root`; `package` is the package itself and `imported` is on its path.

    A package that is itself the root is imported from the folder around it, which is not the module's.
    """

    module_id: str
    root: Path
    imported: Path
    package: Path

    @classmethod
    def of(cls, resolution: Resolution) -> Self:
        """Return where the code of a resolved module is."""
        if resolution.import_root.is_relative_to(resolution.root):
            return cls(resolution.module_id, resolution.root, resolution.import_root, resolution.package_dir)
        package = resolution.package_dir
        return cls(resolution.module_id, package, package, package)

    @classmethod
    def all_of(cls, resolution: Resolution) -> Iterator[Self]:
        """Yield where the code of a resolved module is, and then that of the MCP server which it starts, if it does."""
        yield cls.of(resolution)
        for tree in resolution.server.trees if resolution.server is not None else ():
            yield cls(resolution.module_id, tree, tree, tree)

    def is_at(self, path: Path) -> bool:
        """Return whether a change at `path` changes the code; a folder of results beside it does not.

        A package beside the module's own, which it can import, is code as well.
        """
        if path in (self.root, self.imported) or path.is_relative_to(self.package):
            return True
        if not path.is_relative_to(self.imported):
            return False
        return (self.imported / path.relative_to(self.imported).parts[0] / "__init__.py").is_file()


@dataclass(frozen=True, slots=True)
class FixedPaths:
    """The paths that a module may not change: `codes` of every module of its session, its own first, and `others`.

    Each of the others comes with a clause that says what depends on it.
    """

    codes: tuple[ModuleCode, ...]
    others: tuple[tuple[Path, str], ...]

    @classmethod
    def of(
        cls, own: Resolution, modules: Iterable[Resolution], installation: Iterable[Path], kept: Iterable[Path]
    ) -> Self:
        """Return the fixed paths: Paddock's `installation`, the code of `modules`, and the `kept` paths."""
        codes = dict.fromkeys(code for one in (own, *modules) for code in ModuleCode.all_of(one))
        others = {**dict.fromkeys(kept, _OF_SESSION), **dict.fromkeys(installation, _OF_PADDOCK)}
        return cls(tuple(codes), tuple(others.items()))

    def refuse(self, granted: GrantedPath, *, by_mounts: bool) -> None:
        """Refuse a grant to write to any of it; and one around it, unless `by_mounts` it can be left out.

        Raises:
            NotAcceptedError: with the fixed path, and a grant to use instead.
        """
        path = granted.path
        for code in self.codes:
            if code.is_at(path):
                raise NotAcceptedError(
                    f"`{granted.written}` is the code of module `{code.module_id}`, which no module may change",
                    "grant a folder beside it, as in `./out`",
                )
        for fixed, what in self.others:
            if path.is_relative_to(fixed):
                raise NotAcceptedError(
                    f"`{granted.written}` is part of `{fixed}`, {what} and no module may change", "grant another folder"
                )
        inside = self.inside([path])
        if inside and not by_mounts:
            raise NotAcceptedError(
                f"`{granted.written}` holds `{inside[0]}`, and without mounts nothing keeps that from being changed",
                "keep it elsewhere, as in `paddock run ~/plans/plan.yaml -C .`, grant a folder that it is not in, or "
                "use an isolation level with namespaces (`ns`, `bwrap`)",
            )

    def inside(self, folders: Iterable[Path]) -> list[Path]:
        """Return the paths in one of these folders that are to be left out of it."""
        around = tuple(folders)
        fixed = (*(code.root for code in self.codes), *(path for path, _ in self.others))
        return [path for path in fixed if any(path.is_relative_to(folder) for folder in around)]
