"""One source as a lock file pins it, down to the bytes: what `paddock.lock` has of a module and of what it needs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from paddock_sources.uri import SourceUri


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

    @property
    def digest(self) -> str:
        """The digest of all that is said here: equal for two that say the same, in whatever order they say it."""
        made = self.committed_at
        said = [
            *(self.source, self.requested_ref, self.requested_kind, self.commit, self.tree, self.subdirectory),
            *(self.permissions_digest, sorted(self.hashes), made.astimezone(UTC).isoformat() if made else None),
            sorted(
                [one.name, one.version, one.source, one.commit, one.tree, sorted(one.hashes)]
                for one in self.dependencies
            ),
        ]
        return f"sha256:{hashlib.sha256(json.dumps(said).encode()).hexdigest()}"

    def uri(self, folder: Path) -> SourceUri:
        """Return the source itself, a relative one being below `folder`, that of the lock file."""
        return SourceUri.parse(self.source).anchored(folder)
