"""The cache's records of one remote's commits: which tree each one is, and whether its remote leads to it.

The records are read without git, without a lock and without the network. An invalid record counts as absent. What is
known of a mirror's commits counts for that mirror alone; what is known of the public address counts for both.
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
_MIRROR = "mirror"


@dataclass(frozen=True, slots=True)
class KeptCommit:
    """A commit whose files were in the cache once; `tree` is their digest.

    `is_reachable` means that a branch or tag led to it when it was fetched. `submodules` are paths of other
    repositories in it, which are never fetched.
    """

    commit: str
    tree: str
    committed_at: datetime | None = None
    is_reachable: bool = True
    submodules: tuple[str, ...] = ()

    @classmethod
    def read(cls, commit: str, facts: Mapping[str, Any]) -> Self | None:
        """Return the record of a commit; None where it is not a valid record."""
        tree, seconds, is_reachable = facts.get("tree"), facts.get("committed_at"), facts.get("is_reachable")
        if not isinstance(tree, str) or not _TREE.fullmatch(tree) or not isinstance(is_reachable, bool):
            return None
        submodules = facts.get("submodules")
        paths = tuple(path for path in submodules if isinstance(path, str)) if isinstance(submodules, list) else ()
        try:
            committed_at = datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) else None
        except (OverflowError, ValueError, OSError):
            committed_at = None
        return cls(commit, tree, committed_at, is_reachable, paths)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The contents of its record."""
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
        self._public = remote.mirrored.public if remote.mirrored else remote.url
        self._mirror = remote.mirrored.address if remote.mirrored else ""

    def get(self, commit: str, *, by_any_mirror: bool = False) -> KeptCommit | None:
        """Return the record of a commit; for a caller that fetches nothing also one of another mirror."""
        if not is_commit(commit):
            return None
        facts = self._cache.repositories.commit(self._public, commit)
        if facts is None or not (by_any_mirror or facts.get(_MIRROR, "") in ("", self._mirror)):
            return None
        return KeptCommit.read(commit, facts)

    def tree(self, kept: KeptCommit) -> TreeEntry | None:
        """Return the files of a commit, which are in use from now on; None where they were removed."""
        return self._cache.trees.tree(kept.tree)

    def __contains__(self, commit: str) -> bool:
        """Return whether a commit's files are there, and a branch or tag led to it."""
        kept = self.get(commit)
        return kept is not None and kept.is_reachable and self.tree(kept) is not None

    def note(self, kept: KeptCommit) -> None:
        """Write the record of a commit whose files are there.

        Raises:
            CacheError: it cannot be written.
        """
        by_mirror = {_MIRROR: self._mirror} if self._mirror else {}
        self._cache.repositories.note(self._public, kept.commit, {**kept.facts, **by_mirror})

    def add(self, commit: KeptCommit, write: Callable[[TreeWriter], None]) -> TreeEntry:
        """Keep the files that `write` writes as those of a commit, which is given without its tree.

        Raises:
            CacheError: they cannot be kept. Exceptions of `write` propagate, and nothing is kept.
        """
        entry = self._cache.trees.add_tree(write)
        self.note(replace(commit, tree=entry.digest))
        return entry

    def locked(self, seconds: float, progress: Progress) -> AbstractContextManager[Path]:
        """Yield the folder for the repository, used exclusively until this is left.

        Raises:
            CacheError: another process used it for too long, or it cannot be written to.
        """
        return self._cache.repositories.locked(self._url, seconds, progress=progress)
