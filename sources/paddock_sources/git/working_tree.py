"""Find out whether the files that somebody works on in a repository of this machine are those of a commit that runs.

Contents are compared, up to caps; git is not asked, as what a repository configures could run then. Files that no
commit has are not looked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from paddock_sources.errors import ManifestError
from paddock_sources.tree import SourceTree

_MAX_FILES: Final = 2000
_MAX_BYTES: Final = 1 << 20  # of one file
_BRANCHES: Final = "refs/heads/"


def differing_file(repository: Path, ref: str, commit: Path) -> str:
    """Return a file of the tree `commit` that is otherwise in the working tree of `repository`; empty if none is found.

    Where another branch than `ref` is checked out, none is looked for; an empty `ref` is the one that is.
    """
    try:
        tree = SourceTree(repository)
        head = tree.read(".git/HEAD", limit_bytes=_MAX_BYTES) or b""
        branch = os.fsencode(_BRANCHES + ref.removeprefix(_BRANCHES))
        if not head or (ref and head.strip() != b"ref: " + branch):
            return ""
    except ManifestError:  # no repository with a working tree
        return ""
    return next((name for name, content in _files(commit) if _read(tree, name) != content), "")


def _files(commit: Path) -> Iterator[tuple[str, bytes]]:
    looked = 0
    for folder, folders, names in os.walk(commit):
        folders.sort()
        for path in (Path(folder, name) for name in sorted(names)):
            looked += 1
            if looked > _MAX_FILES:
                return
            if not path.is_symlink() and path.stat().st_size <= _MAX_BYTES:
                yield str(path.relative_to(commit)), path.read_bytes()


def _read(tree: SourceTree, name: str) -> bytes | None:
    try:
        return tree.read(name, limit_bytes=_MAX_BYTES)
    except ManifestError:  # too large by now, or no file any more
        return None
