"""One source as a lock file pins it, down to the bytes: the module and its dependencies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from paddock_sources.uri import SourceUri, parse_source


@dataclass(frozen=True, slots=True)
class LockedDependency:
    """What a module needs: from an index by version and hashes, or from git by `commit` and `tree`.

    A package of npm also has the `path` at which it lies in the tree of its server: there may be several of one name.
    """

    name: str
    version: str
    hashes: tuple[str, ...] = ()
    source: str = ""
    commit: str = ""
    tree: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class LockedServer:
    """An MCP server as it was when its tools were pinned: the protocol it spoke, and its name and version.

    `definitions` are the digests of its tools' definitions, by name; `instructions` is that of its instructions, empty
    where it gives none.
    """

    protocol: str
    server: str
    definitions: Mapping[str, str]
    instructions: str = ""

    @property
    def values(self) -> list[object]:
        """All of it, for a digest."""
        return [self.protocol, self.server, self.instructions, sorted(self.definitions.items())]


@dataclass(frozen=True, slots=True)
class LockedModule:
    """A source as it was when it was locked.

    `source` is its key, as `SourceUri.key` returns it. `requested_ref` and `subdirectory` are parts of it; a
    package's ref is its version. `commit` is a repository's commit, or a package's version; `tree` the digest of all
    files; `hashes` those of a package. `permissions_digest` stands for the permissions that its manifest asks for.
    `requested_kind` is the kind of the ref (`branch`, `tag`, `commit`, `default`), `committed_at` the date in the
    commit. `mcp` is what an MCP server said of itself; None until it is pinned, and for any other source.
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
    mcp: LockedServer | None = None

    @property
    def digest(self) -> str:
        """The digest of all these values: equal for two with the same values, in any order."""
        made = self.committed_at
        values = [
            *(self.source, self.requested_ref, self.requested_kind, self.commit, self.tree, self.subdirectory),
            *(self.permissions_digest, sorted(self.hashes), made.astimezone(UTC).isoformat() if made else None),
            sorted(
                [one.name, one.version, one.source, one.commit, one.tree, sorted(one.hashes)]
                + ([one.path] if one.path else [])
                for one in self.dependencies
            ),
            *([] if self.mcp is None else [self.mcp.values]),
        ]
        return f"sha256:{hashlib.sha256(json.dumps(values).encode()).hexdigest()}"

    def uri(self, folder: Path) -> SourceUri:
        """Return the source itself, a relative one being below `folder`, that of the lock file."""
        return parse_source(self.source).anchored(folder)
