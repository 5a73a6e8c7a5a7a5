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
from pathlib import Path
from typing import Final, Self

from paddock_sources.cache import SourceCache, TreeEntry, UnsafeTreeError
from paddock_sources.cache.tree_writer import TreeChecker
from paddock_sources.errors import SourceError

_LEFT_OUT: Final = re.compile(
    r"\.git|\.hg|\.svn|__pycache__|\.venv|venv|node_modules|\.[tn]ox|\.(?:mypy|pytest|ruff)_cache|.*\.egg-info",
    re.DOTALL,
)
_CHUNK_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 64  # of folders, as in the cache; deeper ones would take for ever before a file is refused


def snapshot(folder: Path, cache: SourceCache) -> TreeEntry:
    """Return the tree in the cache with the current contents of `folder`.

    Raises:
        SourceError: a part of it cannot be read, or is of a kind that no module may have.
        CacheError: it cannot be added to the cache.
    """
    return FolderCopy.of(folder).into(cache)


@dataclass(frozen=True, slots=True)
class FolderCopy:
    """A copy to be made of the real `folder`; `name` is the place of the content in it, empty for its root.

    A folder with an `__init__.py` keeps its own name, which decides whether and as what it can be imported.
    """

    folder: Path
    name: str

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return the copy to be made of a folder, or of where a link leads.

        Raises:
            SourceError: it is not there.
        """
        real = _real(folder)
        return cls(real, real.name if (real / "__init__.py").is_file() else "")

    def into(self, cache: SourceCache) -> TreeEntry:
        """Return the copy; raises as `snapshot` does."""
        with _told(self.folder):
            looked_at = TreeChecker()
            self._give(looked_at)
            digest = looked_at.finish()
        found = cache.trees.tree(digest)
        if found is not None:
            return found
        with _told(self.folder):
            return cache.trees.add_tree(self._give, {"folder": str(self.folder)})

    def _give(self, tree: TreeChecker) -> None:
        """Give `tree` all that is in the folder and belongs into a copy."""
        waiting = [(os.fspath(self.folder), f"{self.name}/" if self.name else "")]
        while waiting:
            folder, prefix = waiting.pop()
            for entry in _entries(folder, prefix):
                path = prefix + entry.name
                if _LEFT_OUT.fullmatch(entry.name):
                    continue
                if entry.is_symlink():
                    tree.add_link(path, _target(entry.path, path))
                elif entry.is_dir(follow_symlinks=False):
                    if path.count("/") >= _MAX_DEPTH:
                        raise UnsafeTreeError(path, f"it lies more than {_MAX_DEPTH} folders deep")
                    waiting.append((entry.path, path + "/"))
                elif entry.is_file(follow_symlinks=False):
                    _give_file(entry.path, path, tree)


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


def _entries(folder: str, prefix: str) -> list[os.DirEntry[str]]:
    with _reading(prefix or "."), os.scandir(folder) as entries:
        return list(entries)


def _target(link: str, path: str) -> str:
    with _reading(path):
        return os.readlink(link)


def _give_file(file: str, path: str, tree: TreeChecker) -> None:
    with _reading(path):
        # Not blocking: the file may have become a fifo since the folder was listed.
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
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
