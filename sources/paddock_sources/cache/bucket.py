"""The rooms of the cache. The number in a name changes with what the room holds, so that versions can live together."""

from __future__ import annotations

from enum import Enum


class Bucket(Enum):
    """A room, by the name of its folder."""

    GIT = "git-v1"
    COMMITS = "commits-v1"
    TREES = "trees-v1"
    ENVIRONMENTS = "envs-v1"
    METADATA = "metadata-v1"
    DOWNLOADS = "downloads-v1"

    @property
    def content(self) -> str:
        """Which folder of an entry its digest is of, where that is told by its files; empty for the whole of it."""
        # With a dot: the name of no package, as which a repository with an `__init__.py` would be imported by it.
        return "tree.d" if self is Bucket.TREES else ""


ENTRY_BUCKETS = (Bucket.TREES, Bucket.ENVIRONMENTS, Bucket.METADATA)
