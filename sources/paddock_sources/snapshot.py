"""A folder of the user's, copied into the cache as it is now, so that the code that was checked is the code that runs.

Tools' leftovers, installed environments, the history of the repository, and anything that is neither file, folder nor
link are left out. A folder that is in the cache already is only read. A file that changes during the copy is in it in
one version or the other; the digest shows which.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from paddock_sources.cache import SourceCache, TreeEntry, UnsafeTreeError
from paddock_sources.cache.tree_writer import TreeChecker
from paddock_sources.errors import SourceError
from paddock_sources.tree import HeldFolder

_LEFT_OUT: Final = re.compile(
    r"\.git|\.hg|\.svn|__pycache__|\.venv|venv|node_modules|\.[tn]ox|\.(?:mypy|pytest|ruff)_cache|.*\.egg-info",
    re.DOTALL,
)
_CHUNK_BYTES: Final = 1 << 20
MAX_NAMES: Final = 200_000  # in all folders together; a tree counts only its files, and no folders or pipes
_MAX_DEPTH: Final = 64  # of folders, as in the cache; deeper ones would take for ever before a file is refused


def snapshot(folder: Path, cache: SourceCache, held: HeldFolder | None = None) -> TreeEntry:
    """Return the tree in the cache with the current contents of `folder`; of no other than `held`, if that is given.

    Raises:
        SourceError: a part of it cannot be read, or is of a kind that no module may have; or another folder is there.
        CacheError: it cannot be added to the cache.
    """
    return FolderCopy.of(folder, held).into(cache)


def part_of(folder: Path, tree: Path) -> Path:
    """Return the part of a folder's snapshot that stands for the folder: for a package, the folder of that name."""
    name = folder.name
    return tree / name if os.listdir(tree) == [name] and (tree / name / "__init__.py").is_file() else tree


@dataclass(frozen=True, slots=True)
class FolderCopy:
    """A copy to be made of a `folder`; `name` is the place of the content in it, empty for its root.

    A folder with an `__init__.py` keeps its own name, which decides whether and as what it can be imported.
    """

    folder: HeldFolder
    name: str

    @classmethod
    def of(cls, folder: Path, held: HeldFolder | None = None) -> Self:
        """Return the copy to be made of the folder that a path leads to now, or of the one that is `held`.

        Raises:
            SourceError: it is not there.
        """
        real = _real(folder if held is None else held.path)
        name = real.name if (real / "__init__.py").is_file() else ""
        return cls(HeldFolder.of(real) if held is None else held, name)

    def into(self, cache: SourceCache) -> TreeEntry:
        """Return the copy; raises as `snapshot` does."""
        with self.folder.opened() as root, _told(self.folder.path):
            looked_at = TreeChecker()
            self._give(root, looked_at)
            digest = looked_at.finish()
        found = cache.trees.tree(digest)
        if found is not None:
            return found
        with self.folder.opened() as root, _told(self.folder.path):
            return cache.trees.add_tree(partial(self._give, root), {"folder": str(self.folder.path)})

    def _give(self, root: int, tree: TreeChecker) -> None:
        """Give `tree` all that is in the folder and belongs into a copy."""
        for folder, path, entry in self._listed(root):
            if entry.is_symlink():
                with _reading(path):
                    target = os.readlink(entry.name, dir_fd=folder)
                tree.add_link(path, target)
            elif entry.is_file(follow_symlinks=False):
                _give_file(entry.name, folder, path, tree)

    def _listed(self, root: int) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        """Yield all but the folders in it: the open folder that each is in, its path in the copy, and its entry.

        Each name is looked up in the open folder that it was listed in, so a link that replaces a folder meanwhile is
        not followed.
        """
        names = 0
        waiting = [""]
        while waiting:
            inside = waiting.pop()
            prefix = "".join(f"{part}/" for part in (self.name, inside) if part)
            with _entered(root, inside, prefix) as folder:
                for entry in _entries(folder, prefix):
                    path = prefix + entry.name
                    names += 1
                    if names > MAX_NAMES:
                        raise UnsafeTreeError(path, f"there are more than {MAX_NAMES} names in the folder")
                    if _LEFT_OUT.fullmatch(entry.name):
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        yield folder, path, entry
                    elif path.count("/") < _MAX_DEPTH:
                        waiting.append(f"{inside}/{entry.name}" if inside else entry.name)
                    else:
                        raise UnsafeTreeError(path, f"it lies more than {_MAX_DEPTH} folders deep")


def _real(folder: Path) -> Path:
    try:
        real = folder.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)
        raise _unsuitable(folder, ".", reason) from error
    if not real.is_dir():
        raise _unsuitable(folder, ".", "it is not a folder")
    return real


@contextmanager
def _entered(root: int, inside: str, prefix: str) -> Iterator[int]:
    """Open a folder inside the open one, name by name, so that no link on the way is followed."""
    folder = os.dup(root)
    try:
        for name in filter(None, inside.split("/")):
            with _reading(prefix):
                entered = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = entered
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except UnsafeTreeError as error:
        raise _unsuitable(folder, error.path, error.problem) from error


def _unsuitable(folder: Path, path: str, problem: str) -> SourceError:
    """Return the error for a folder that cannot be copied; `path` is the part at fault."""
    return SourceError(
        f"`{folder}` cannot be copied: `{path}`: {problem}",
        code="SnapshotError",
        hints=["mend or remove that file, or run the folder as it is: `--dev`"],
    )


def _entries(folder: int, prefix: str) -> Iterator[os.DirEntry[str]]:
    """Yield the names in a folder as they are read: there may be millions."""
    with _reading(prefix or "."), os.scandir(folder) as entries:
        yield from entries


def _give_file(file: str, folder: int, path: str, tree: TreeChecker) -> None:
    with _reading(path):
        # Not blocking: the file may have become a fifo since the folder was listed.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            tree.add_file(path, bool(mode & stat.S_IXUSR), _chunks(descriptor, path))
    finally:
        os.close(descriptor)


def _chunks(descriptor: int, path: str) -> Iterator[bytes]:
    while True:
        with _reading(path):
            chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


@contextmanager
def _reading(path: str) -> Iterator[None]:
    # Distinct from errors of the cache, which other code reports.
    try:
        yield
    except OSError as error:
        raise UnsafeTreeError(path, f"it cannot be read: {(error.strerror or str(error)).lower()}") from error
