"""What the cache has of one remote's commits: which tree each one is, and what was found out about it.

Read without git, without a lock and without the network; what a file says that is no record is as good as none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from paddock_sources.cache import SourceCache, TreeEntry, TreeWriter
from paddock_sources.git.remote import Remote
from paddock_sources.progress import Progress
from paddock_sources.ref_name import is_commit

_TREE = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_SUBMODULES = 100


@dataclass(frozen=True, slots=True)
class KeptCommit:
    """A commit whose files were in the cache once; `tree` is their digest.

    `is_reachable` says that a branch or tag led to it when it was fetched. `submodules` are paths at which other
    repositories belong, which are never fetched.
    """

    commit: str
    tree: str
    committed_at: datetime | None = None
    is_reachable: bool = True
    submodules: tuple[str, ...] = ()

    @classmethod
    def read(cls, commit: str, facts: Mapping[str, Any]) -> Self | None:
        """Return what was noted of a commit; None where that is no record of ours."""
        tree, seconds, is_reachable = facts.get("tree"), facts.get("committed_at"), facts.get("is_reachable")
        if not isinstance(tree, str) or not _TREE.fullmatch(tree) or not isinstance(is_reachable, bool):
            return None
        submodules = facts.get("submodules")
        paths = tuple(path for path in submodules if isinstance(path, str)) if isinstance(submodules, list) else ()
        return cls(commit, tree, _time(seconds), is_reachable, paths)

    @property
    def facts(self) -> Mapping[str, Any]:
        """What is noted of it."""
        return {
            "tree": self.tree,
            "committed_at": None if self.committed_at is None else int(self.committed_at.timestamp()),
            "is_reachable": self.is_reachable,
            "submodules": list(self.submodules[:_MAX_SUBMODULES]),
        }


class KeptCommits:
    """The commits of `remote` in `cache`."""

    def __init__(self, cache: SourceCache, remote: Remote) -> None:
        self._cache = cache
        self._url = remote.url

    def get(self, commit: str) -> KeptCommit | None:
        """Return what is known of a commit."""
        if not is_commit(commit):
            return None
        facts = self._cache.repositories.commit(self._url, commit)
        return None if facts is None else KeptCommit.read(commit, facts)

    def tree(self, kept: KeptCommit) -> TreeEntry | None:
        """Return the files of a commit, which are in use from now on; None where they were taken away."""
        trees = self._cache.trees
        folder = trees.get(kept.tree)
        return None if folder is None else TreeEntry(folder / trees.bucket.content, kept.tree)

    def __contains__(self, commit: str) -> bool:
        """Tell whether a commit's files are there, and a branch or tag led to it."""
        kept = self.get(commit)
        return kept is not None and kept.is_reachable and self.tree(kept) is not None

    def note(self, kept: KeptCommit) -> None:
        """Note what was found out about a commit whose files are there.

        Raises:
            CacheError: nothing can be noted.
        """
        self._cache.repositories.note(self._url, kept.commit, kept.facts)

    def add(self, commit: KeptCommit, write: Callable[[TreeWriter], None]) -> TreeEntry:
        """Keep the files that `write` writes as those of a commit, which is given without its tree.

        Raises:
            CacheError: they cannot be kept. What `write` raises is raised, and nothing is kept.
        """
        entry = self._cache.trees.add_tree(write)
        self.note(replace(commit, tree=entry.digest))
        return entry

    def locked(self, seconds: float, progress: Progress) -> AbstractContextManager[Path]:
        """Return the folder to keep the repository in, which nobody else uses until this is left.

        Raises:
            CacheError: somebody else had it for too long, or it cannot be written to.
        """
        return self._cache.repositories.locked(self._url, seconds, progress=progress)


def _time(seconds: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) else None
    except (OverflowError, ValueError, OSError):
        return None
