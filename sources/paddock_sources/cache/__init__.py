"""Keep fetched code: content-addressed trees, environments and metadata, and the repositories they came from.

Many hosts use one cache at the same time, and any of them may be killed at any moment. An entry that is visible under
its digest is complete: it is built elsewhere, marked when it is complete, and then renamed into place.
"""

from __future__ import annotations

from paddock_sources.cache.cache_folder import Bucket
from paddock_sources.cache.entry_store import EntryStore, StagedEntry, TreeEntry
from paddock_sources.cache.errors import (
    CacheError,
    UnsafeTreeError,
)
from paddock_sources.cache.repositories import Repositories
from paddock_sources.cache.source_cache import SourceCache
from paddock_sources.cache.tree_digest import Contents, tree_digest
from paddock_sources.cache.tree_writer import TreeWriter

__all__ = [
    "Bucket",
    "StagedEntry",
    "CacheError",
    "Contents",
    "EntryStore",
    "Repositories",
    "SourceCache",
    "TreeEntry",
    "TreeWriter",
    "UnsafeTreeError",
    "tree_digest",
]
