"""How code of one kind of source is pinned, locked and provided: the half of a kind's row that gets code.

The half that fetches nothing is `kinds.source_uri.SourceUri`. Nothing of the code is executed. Pinning and locking may
ask a server; providing locked code asks none as long as the cache has the code. Threads may share it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from paddock_sources.cache import Bucket, TreeEntry
from paddock_sources.constraints import DependencyRules
from paddock_sources.dependencies import Choice, Dependencies
from paddock_sources.errors import OwnRightsError, SourceError, pin_mismatch, without_credentials
from paddock_sources.file import FileSource
from paddock_sources.kinds.source_uri import Row
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.manifest.permission_request import PermissionRequest, permissions_digest
from paddock_sources.means import Means
from paddock_sources.resolution import PinnedSource, Resolution
from paddock_sources.supplies.repositories import Repositories
from paddock_sources.uri import SourceUri

if TYPE_CHECKING:
    from paddock_sources.environment.installed import InstalledDistributions
    from paddock_sources.package import PackageSource

Uri = TypeVar("Uri", bound=SourceUri)


@dataclass(frozen=True, slots=True)
class StaleLock:
    """Why a lock is not of the code that is here now: in a list, in a warning, and as the refusal by `--locked`."""

    reason: str
    warning: str
    refusal: SourceError


class Workshop(Means):
    """The means of one provisioner, and what is made of them once."""

    @cached_property
    def repositories(self) -> Repositories:
        """Repositories to fetch from."""
        return Repositories(self)

    @cached_property
    def dependencies(self) -> Dependencies:
        """What chooses and provides packages and repositories that modules depend on."""
        return Dependencies(self, self.repositories.source)

    @cached_property
    def installed(self) -> InstalledDistributions:
        """The distributions beside the host."""
        from paddock_sources.environment.installed import InstalledDistributions

        return InstalledDistributions()

    def cached(self, tree: str) -> Path | None:
        """Return the folder of a tree in the cache."""
        entry = self.cache.trees.get(tree)
        return entry / Bucket.TREES.content if entry is not None else None

    def package(
        self,
        name: str,
        version: str,
        rules: DependencyRules,
        *,
        is_installed: bool = False,
    ) -> PackageSource:
        """Return a package of the index, for a process that has no other packages, or one that `is_installed`."""
        from paddock_sources.package import PackageSource

        return PackageSource(
            name,
            version,
            cache=self.cache,
            python=self.dependencies.python,
            environments=None if is_installed else self.dependencies.environments,
            rules=rules,
        )

    def missing(self, locked: LockedModule) -> tuple[str, ...]:
        """Return the locked parts that the cache lacks, in words for people."""
        code = ("its code",) if locked.tree and self.cached(locked.tree) is None else ()
        return (*code, *self.dependencies.missing(locked))


class Supply(Row, ABC, Generic[Uri]):
    """Gets the code of one kind of source with the means of a workshop; a method that cannot raises a `SourceError`.

    `has_uv_lock` says whether such code can have a `uv.lock` of its own.
    """

    is_base: ClassVar[bool] = True
    has_uv_lock: ClassVar[bool]

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop

    @abstractmethod
    def pin(self, uri: Uri, *, allow_impostor: bool = False) -> PinnedSource:
        """Return what a source is now; it may ask a server."""

    def look(self, uri: Uri) -> PinnedSource:
        """Return what a source is now, without fetching; values that need a fetch are left out."""
        return self.pin(uri)

    def newer_tags(self, uri: Uri, locked: LockedModule) -> tuple[str, ...]:
        """Return the tags with a newer version than the locked one, the newest first; it may ask a server."""
        return ()

    def needs_lock(self, uri: Uri) -> bool:
        """Return whether a source could change by tomorrow without a change on this machine."""
        return True

    def heeds_lock(self, uri: Uri) -> bool:
        """Return whether an entry of a lock file says anything about a source."""
        return True

    @abstractmethod
    def lock(self, uri: Uri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        """Fetch a source and return its entry for a lock file; its key is the source's text."""

    def relock(self, uri: Uri, locked: LockedModule, rules: DependencyRules) -> LockedModule:
        """Return the same code with its dependencies chosen again within the rules."""
        pinned = PinnedSource(uri.requested[0], "version", locked.commit)
        return replace(self.lock(uri, pinned, Choice(rules, locked)), source=locked.source)

    def differs(self, uri: Uri, locked: LockedModule) -> str | None:
        """Return how locked dependencies differ from those of the code's own `uv.lock`, in words, if they do."""
        return None

    def stale(self, uri: Uri, locked: LockedModule) -> StaleLock | None:
        """Return why a lock is not of the code that is here now; what a server may have now does not count."""
        return None

    def is_as_locked(self, uri: Uri, pinned: PinnedSource, locked: LockedModule) -> bool:
        """Return whether a source, as it is pinned now, is the locked one, and here."""
        # What was changed by hand, or is missing here, is locked again, to check that it matches its record.
        return pinned.commit == locked.commit and not self.workshop.missing(locked)

    @abstractmethod
    def provide(
        self,
        uri: Uri,
        module_id: str,
        locked: LockedModule | None,
        rules: DependencyRules,
    ) -> Resolution:
        """Return a module, ready to be run; what the cache lacks is fetched, and must match the lock."""

    @abstractmethod
    def module_ids(self, uri: Uri, locked: LockedModule | None) -> tuple[str, ...]:
        """Return the ids of the modules in a source."""

    @abstractmethod
    def own_rights(self, uri: Uri, locked: LockedModule | None) -> OwnRightsError | None:
        """Return why a source takes the user's own rights, as far as its address says it, if it has to be fetched."""

    def rules(self, uri: Uri, rules: DependencyRules) -> DependencyRules:
        """Return the rules for the dependencies of a source together with those of the user's settings.

        Raises:
            SourceError: they contradict each other, or ask for a lock that this source cannot have.
        """
        rules = rules.joined(DependencyRules(self.workshop.settings.constraints))
        if rules.by_uv_lock and not self.has_uv_lock:
            raise SourceError(
                f"`{uri.text}` has no `uv.lock` whose versions could be taken: it is no repository or folder",
                code="UvLockMissingError",
                hints=["take `dependencies: locked` out of its entry"],
            )
        return rules

    def with_libraries(
        self, resolution: Resolution, locked: LockedModule | None, uri: Uri, *, mine: bool
    ) -> Resolution:
        """Return a module with what it depends on, as it is locked; `mine`: the user wrote the code.

        Raises:
            SourceError: something is unavailable, or differs from what was locked.
        """
        dependencies = self.workshop.dependencies
        return replace(
            resolution,
            libraries=dependencies.provide(resolution, locked, uri, mine=mine),
            own_versions=dependencies.own_versions(locked),
        )


@dataclass(frozen=True, slots=True)
class Code:
    """The folder `root` of a module's code, in the folder `top` of all that its source pins."""

    root: Path
    top: Path


class TreeSupply(Supply[Uri]):
    """Locks and provides code that is a tree of files, pinned by its digest; a subclass says where it comes from."""

    is_base: ClassVar[bool] = True
    has_uv_lock: ClassVar[bool] = True

    @property
    @abstractmethod
    def is_mine(self) -> bool:
        """Whether the user wrote the code: it may name any repository, and has it fetched with the user's keys."""

    @abstractmethod
    def fetched(self, uri: Uri, commit: str, *, allow_impostor: bool) -> tuple[TreeEntry, Path]:
        """Return the tree of a source at a commit, and the folder in it that the address names.

        Raises:
            SourceError: it is unavailable.
        """

    @abstractmethod
    def code(self, uri: Uri, locked: LockedModule) -> Code:
        """Return the module's code as it was locked.

        Raises:
            SourceError: it is unavailable, or is not what was locked.
        """

    def lock(self, uri: Uri, pinned: PinnedSource | None, choice: Choice) -> LockedModule:
        pinned = pinned or self.pin(uri, allow_impostor=choice.allow_impostor)
        entry, root = self.fetched(uri, pinned.commit, allow_impostor=choice.allow_impostor)
        return LockedModule(
            source=without_credentials(uri.text),
            requested_ref=pinned.requested_ref,
            commit=pinned.commit,
            tree=entry.digest,
            subdirectory=uri.requested[1],
            permissions_digest=permissions_digest(PermissionRequest.read(root)),
            dependencies=self.workshop.dependencies.choose(
                root,
                uri,
                choice,
                mine=self.is_mine,
                keeps=self.is_mine or self.workshop.offline,
                top=entry.root,
                commit=pinned.commit,
            ),
            requested_kind=pinned.kind if pinned.commit else "",
            committed_at=pinned.committed_at,
        )

    def relock(self, uri: Uri, locked: LockedModule, rules: DependencyRules) -> LockedModule:
        code = self.code(uri, locked)
        chosen = self.workshop.dependencies.choose(
            code.root, uri, Choice(rules, locked), mine=self.is_mine, keeps=True, top=code.top, commit=locked.commit
        )
        return replace(locked, dependencies=chosen)

    def differs(self, uri: Uri, locked: LockedModule) -> str | None:
        code = self.code(uri, locked)
        return self.workshop.dependencies.differs(code.root, code.top, locked, mine=self.is_mine)

    def as_locked(
        self,
        uri: Uri,
        held: SourceUri,
        module_id: str,
        locked: LockedModule,
    ) -> tuple[Resolution, Code]:
        """Return a module as it was locked, without its dependencies, and the code that it is in.

        Rules name it by the text of `held`: a folder by its path, and a repository by its address.

        Raises:
            SourceError: it is unavailable, or is not what was locked.
        """
        code = self.code(uri, locked)
        resolution = FileSource(code.root, source=without_credentials(held.text)).resolve(module_id)
        return replace(resolution, commit=locked.commit, tree=locked.tree), code


def expected(entry: TreeEntry, text: str, tree: str) -> Path:
    """Return a tree's folder, if it is the one that was locked for the source `text`.

    Raises:
        SourceError: it is not.
    """
    if entry.digest != tree:
        raise pin_mismatch(text, tree, entry.digest, entry.with_compiled)
    return entry.root
