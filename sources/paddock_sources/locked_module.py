"""One source as a lock file pins it, down to the bytes: what `paddock.lock` has of a module and of what it needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from .uri import SourceUri


@dataclass(frozen=True, slots=True)
class LockedDependency:
    """A distribution that a module needs: from an index by version and hashes, or from git by `commit` and `tree`."""

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    source: str = ""
    commit: str = ""
    tree: str = ""


@dataclass(frozen=True, slots=True)
class LockedModule:
    """What a source was when it was locked.

    `source` is its key, as `normalised_source` has it. `requested_ref` and `subdirectory` are those of it, a package's
    ref being its version. `commit` is that of a repository, or a package's version; `tree` the digest of all files;
    `hashes` those of a package. `permissions_digest` stands for what its manifest asks for. `requested_kind` says what
    the ref was (`branch`, `tag`, `commit`, `default`), `committed_at` when, by the commit's own word, it was made.
    """

    source: str
    requested_ref: str = ""
    commit: str = ""
    tree: str = ""
    subdirectory: str = ""
    permissions_digest: str = ""
    hashes: tuple[str, ...] = ()
    dependencies: tuple[LockedDependency, ...] = ()
    requested_kind: str = ""
    committed_at: datetime | None = None

    def uri(self, folder: Path) -> SourceUri:
        """Return the source itself, a relative one being below `folder`, that of the lock file."""
        return SourceUri.parse(self.source).anchored(folder)
