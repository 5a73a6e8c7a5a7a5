"""What provides code, in memory: repositories as tests make them up, and what of them was fetched.

Keeps to what the real one promises as far as commands can tell: it blocks, is called in threads, and fails with
`SourceError`s.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Self, cast
from urllib.parse import urlsplit

from paddock.module_sources.sourced_modules import name_of
from paddock_sources import FolderUri, GitUri, PackageUri, Resolution, SourceError, SourceUri
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.lock.lock_file import LockedDependency, LockedModule
from paddock_sources.manifest.permission_request import PermissionRequest, permissions_digest
from paddock_sources.provisioner import PinKind, PinnedSource, StaleLock
from paddock_sources.settings import SourceSettings


def commit_of(name: str) -> str:
    """Return a commit's name that is the same for the same word."""
    return sha256(name.encode()).hexdigest()[:40]


def tree_of(name: str) -> str:
    """Return a digest that is the same for the same word."""
    return f"sha256:{sha256(name.encode()).hexdigest()}"


@dataclass
class Version:
    """A commit: what is in it, and what its manifest asks for."""

    name: str
    asks: object = None
    ids: tuple[str, ...] = ()
    kind: str = "tool"
    made: datetime | None = datetime(2026, 1, 1, tzinfo=UTC)
    needs: Mapping[str, str] = field(default_factory=dict)

    @property
    def request(self) -> PermissionRequest | None:
        return PermissionRequest.of(self.asks) if self.asks is not None else None


class TwinProvider:
    """Provides what is in `refs`: by address, the kind and the version of each ref, "" being the default branch."""

    def __init__(self) -> None:
        self.settings = SourceSettings()
        self.refs: dict[str, dict[str, tuple[str, Version]]] = {}
        self.folders: dict[Path, Version] = {}
        self.packages: dict[str, Version] = {}
        self.cached: dict[str, Version] = {}  # by digest
        self.damaged: set[str] = set()
        self.impostors: set[str] = set()
        self.offline = False
        self.asked: list[str] = []
        self.fetched: set[str] = set()  # versions that were looked into, not only looked up
        self.threads: set[int] = set()

    def has(self, url: str, ref: str, version: Version, kind: str = "branch") -> None:
        """Let a ref of a repository be at a version from now on."""
        self.refs.setdefault(_plain(url), {})[ref] = (kind, version)

    # -- what commands use -----------------------------------------------------------------

    def supply(self, uri: SourceUri) -> Self:
        return self

    def look(self, uri: SourceUri) -> PinnedSource:
        match uri:
            case GitUri():
                kind, version = self._ref(uri)
                return PinnedSource(uri.ref, cast(PinKind, kind), commit_of(version.name))
        return self.pin(uri)

    def pin(self, uri: SourceUri, *, allow_impostor: bool = False) -> PinnedSource:
        match uri:
            case GitUri():
                kind, version = self._ref(uri)
                self.fetched.add(version.name)
                if version.name in self.impostors and not allow_impostor:
                    raise SourceError(f"no branch leads to {version.name}", hints=["`--allow-impostor`"])
                is_outside = uri.url.startswith("ssh:")
                return PinnedSource(uri.ref, cast(PinKind, kind), commit_of(version.name), version.made, is_outside)
            case PackageUri():
                return PinnedSource(uri.version, "version" if uri.version else "installed", uri.version or "9.9")
        return PinnedSource("", "folder", "")

    def newer_tags(self, uri: SourceUri, locked: LockedModule) -> tuple[str, ...]:
        of_tag = locked.requested_kind == "tag" and isinstance(uri, GitUri)
        tags = {ref for ref, (kind, _) in self.refs[_plain(uri.url)].items() if kind == "tag"} if of_tag else set()
        return tuple(sorted((tag for tag in tags if tag > locked.requested_ref), reverse=True))

    def needs_lock(self, uri: SourceUri) -> bool:
        match uri:
            case FolderUri():
                return bool(self.folders[uri.folder].needs)
            case PackageUri():
                return bool(uri.version)
        return isinstance(uri, GitUri)

    def lock(
        self,
        uri: SourceUri,
        pinned: PinnedSource | None = None,
        *,
        previous: LockedModule | None = None,
        allow_impostor: bool = False,
        rules: DependencyRules = NO_RULES,
    ) -> LockedModule:
        pinned = pinned or self.pin(uri, allow_impostor=allow_impostor)
        version = self._version(uri)
        if isinstance(uri, GitUri):
            assert commit_of(version.name) == pinned.commit, "it locks what was pinned"
        tree = tree_of(version.name)
        self.cached[tree] = version
        return LockedModule(
            source=uri.text,
            requested_ref=pinned.requested_ref,
            requested_kind="" if isinstance(uri, FolderUri) else pinned.kind,
            commit=pinned.commit,
            committed_at=pinned.committed_at,
            tree="" if isinstance(uri, PackageUri) else tree,
            subdirectory=uri.subdirectory if isinstance(uri, GitUri) else "",
            permissions_digest=permissions_digest(version.request),
            dependencies=tuple(LockedDependency(*item, (tree_of("wheel"),)) for item in version.needs.items()),
        )

    def rules(self, uri: SourceUri, rules: DependencyRules) -> DependencyRules:
        return rules

    def contradiction(self, uri: SourceUri, locked: LockedModule, rules: DependencyRules) -> str | None:
        broken = rules.broken_by((one.name, one.version) for one in locked.dependencies)
        return broken[0].shown if broken else None

    def provide(
        self, uri: SourceUri, module_id: str, locked: LockedModule | None, rules: DependencyRules = NO_RULES
    ) -> Resolution:
        if isinstance(uri, PackageUri) and not uri.version:  # as it is here, with what it needs
            for broken in rules.broken_by(self._version(uri).needs.items()):
                raise SourceError(f"the installed package needs {broken.shown}", code="BoundsError")
        version = self._version(uri) if locked is None or not locked.tree else self._fetched(uri, locked)
        where = Path("/cache") / version.name
        return Resolution(module_id, uri.text, where, "package", where / "package", where, version.kind)

    def missing(self, locked: LockedModule) -> tuple[str, ...]:
        return () if not locked.tree or locked.tree in self.cached else ("its code",)

    def damage(self, locked: LockedModule) -> tuple[str, ...]:
        return ("its code",) if locked.tree in self.damaged else ()

    def heeds_lock(self, uri: SourceUri) -> bool:
        return True

    def stale(self, uri: SourceUri, locked: LockedModule) -> StaleLock | None:
        if not isinstance(uri, FolderUri) or tree_of(self.folders[uri.folder].name) == locked.tree:
            return None
        return StaleLock("changed since it was locked", "", SourceError("it was changed"))

    def is_as_locked(self, uri: SourceUri, pinned: PinnedSource, locked: LockedModule) -> bool:
        if isinstance(uri, FolderUri):
            return self.stale(uri, locked) is None
        return pinned.commit == locked.commit and not self.missing(locked)

    def module_ids(self, uri: SourceUri, locked: LockedModule | None) -> tuple[str, ...]:
        known = locked is not None and locked.tree
        version = self._fetched(uri, locked) if known and locked is not None else self._version(uri)
        return version.ids or (name_of(uri),)

    def find_installed(self, module_id: str) -> str | None:
        return module_id if module_id in self.packages else None

    def request(self, locked: LockedModule) -> PermissionRequest | None:
        version = self.cached.get(locked.tree)
        return version.request if version is not None else None

    # -- what it has -----------------------------------------------------------------------

    def _ref(self, uri: GitUri) -> tuple[str, Version]:
        self.threads.add(threading.get_ident())
        self.asked.append(uri.url)
        if self.offline:
            raise SourceError(f"`{uri.url}` is not asked offline", hints=["`paddock sync`"])
        found = self.refs.get(_plain(uri.url), {})
        if uri.ref not in found:
            raise SourceError(f"cannot fetch `{uri.url}`: it has no branch or tag `{uri.ref}`", hints=["look again"])
        return found[uri.ref]

    def _version(self, uri: SourceUri) -> Version:
        match uri:
            case GitUri():
                return self._ref(uri)[1]
            case FolderUri():
                return self.folders[uri.folder]
            case PackageUri():
                return self.packages[uri.name]
        return Version("shipped")

    def _fetched(self, uri: SourceUri, locked: LockedModule) -> Version:
        if locked.tree in self.cached:
            return self.cached[locked.tree]
        for _, version in self.refs.get(_plain(uri.url) if isinstance(uri, GitUri) else "", {}).values():
            if tree_of(version.name) == locked.tree and not self.offline:
                return self.cached.setdefault(locked.tree, version)
        raise SourceError(f"`{uri.text}` is not in the cache")


def _plain(url: str) -> str:
    """Return the address that a server knows a repository by."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".removesuffix(".git")
