"""The projects in the folders of one repository: a module of it may depend on another one by name, and gets its code.

So the index is never asked for a name that the repository itself declares, which anybody could register there. The code
is that of the module's own commit, as it lies there: nothing is built.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock_sources.environment.errors import RequirementsError
from paddock_sources.environment.project_file import MAX_PYPROJECT_BYTES, read_project
from paddock_sources.kinds.git_uri import GitUri, git_text, repository
from paddock_sources.kinds.package_uri import package_key
from paddock_sources.manifest.code_names import names_package
from paddock_sources.tree import SourceTree

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_FILE: Final = "pyproject.toml"
_MAX_FOLDERS: Final = 20_000  # of one repository: less than a second, and more than most have


@dataclass(frozen=True, slots=True)
class Siblings:
    """The projects in the tree `top` of the repository at `uri`; `not_these` are names that a worker has itself."""

    uri: GitUri
    top: Path
    not_these: Collection[str]

    def of(self, requirement: Requirement) -> GitUri | None:
        """Return where the project is that a requirement names; None where no project in the repository has that name.

        Raises:
            SourceError: two have it, its version is not one that is wanted, or its file cannot be read as data; or the
                repository has too many folders to know.
        """
        name = package_key(requirement.name)
        is_elsewhere = requirement.url is not None and not self._is_here(requirement.url)
        if is_elsewhere or name in self.not_these:
            return None
        found = [folder for folder in _project_folders(self.top) if self._declares(folder, name)]
        if not found:
            return None
        path = self.top / found[0] / _FILE
        if len(found) > 1:
            several = " and ".join(f"`{os.path.join(folder, _FILE)}`" for folder in found)
            raise RequirementsError(path, f"`{name}` is the name of several projects here: {several}")
        version = read_project(path.parent).get("version")
        if not isinstance(version, str) or not requirement.specifier.contains(version, prereleases=True):
            problem = (
                f"`{requirement}` is wanted, and the repository's own has {version or 'no version that is written'}"
            )
            raise RequirementsError(path, problem)
        return repository(git_text(self.uri.url, self.uri.ref, found[0]))

    def unwritten(self, root: Path) -> tuple[str, ...]:
        """Return the name of the repository's own project where the code in `root` imports it without requiring it.

        Raises:
            SourceError: its file cannot be read as data.
        """
        name = read_project(self.top).get("name")
        if root == self.top or not isinstance(name, str):
            return ()
        package, tree = package_key(name).replace("-", "_"), SourceTree(self.top)
        has_it = any(tree.is_package(os.path.join(folder, package)) for folder in ("", "src"))
        return (name,) if has_it and names_package(root, package) else ()

    def _is_here(self, url: str) -> bool:
        named = GitUri.of_text(url.partition("#")[0])
        return named is not None and _address(named) == _address(self.uri)

    def _declares(self, folder: str, name: str) -> bool:
        written = SourceTree(self.top).read(os.path.join(folder, _FILE), limit_bytes=MAX_PYPROJECT_BYTES) or b""
        if name.encode() not in package_key(written.decode("utf-8", "replace")).encode():
            return False  # a template need be no project
        declared = read_project(self.top / folder).get("name")
        return isinstance(declared, str) and package_key(declared) == name


@lru_cache(maxsize=1)  # asked for each requirement; the files of a commit stay as they are
def _project_folders(top: Path) -> tuple[str, ...]:
    """Return the folders with a project file, without hidden ones and links.

    Raises:
        RequirementsError: there are too many folders, so that a name of the repository's would be asked of the index.
    """
    found = []
    waiting = [""]
    for folder in waiting:  # which grows
        with os.scandir(top / folder) as entries:
            inner = sorted(entries, key=lambda one: one.name)
        for one in inner:
            if one.name == _FILE:
                found.append(folder)
            elif one.is_dir(follow_symlinks=False) and not one.name.startswith("."):
                waiting.append(os.path.join(folder, one.name))
        if len(waiting) > _MAX_FOLDERS:
            problem = (
                f"more than {_MAX_FOLDERS} folders are beside it, so it is not known which names are projects here"
            )
            raise RequirementsError(top / _FILE, problem)
    return tuple(found)


def _address(uri: GitUri) -> str:
    return repository(git_text(uri.url, "", "")).key(Path("/"))
