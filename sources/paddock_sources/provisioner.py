"""Provide code that is ready to be run, from a source: pinned, fetched, checked against its lock, with dependencies.

Pinning and locking may ask a server. Providing locked code asks no server as long as the cache has the code. Nothing of
the code is executed for any of it. Threads may share it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from paddock_sources.builtin import BuiltinSource
from paddock_sources.cache import Bucket, SourceCache, TreeEntry
from paddock_sources.commands.command_runner import CommandRunner
from paddock_sources.commands.limited_runners import RefusingRunner, UserHostsRunner
from paddock_sources.constraints import NO_RULES, DependencyRules
from paddock_sources.dependencies import Dependencies, distributions
from paddock_sources.errors import (
    OFFLINE,
    NoFetching,
    NotFetchedError,
    OwnRightsError,
    SourceError,
    SourceUriError,
    pin_mismatch,
    unavailable,
    without_credentials,
)
from paddock_sources.file import FileSource
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.lock.source_key import package_key
from paddock_sources.manifest.moved import moved_within, telling_where_it_is
from paddock_sources.manifest.permission_request import PermissionRequest, permissions_digest
from paddock_sources.manifest.read import HeldModules, declares_dependencies
from paddock_sources.progress import Progress
from paddock_sources.resolution import Resolution
from paddock_sources.settings import SourceSettings
from paddock_sources.snapshot import part_of, snapshot
from paddock_sources.uri import BuiltinUri, FolderUri, GitUri, PackageUri, SourceUri, git_text

if TYPE_CHECKING:
    from paddock_sources.environment.installed import InstalledDistributions
    from paddock_sources.git.credentials import Credentials
    from paddock_sources.git.git_source import GitSource
    from paddock_sources.package import PackageSource

PinKind = Literal["branch", "tag", "commit", "default", "folder", "version", "installed", "builtin"]


@dataclass(frozen=True, slots=True)
class PinnedSource:
    """The state of a source at one moment. `committed_at` is the date in the commit; a pusher can write any date.

    `is_outside` means that an unconfined program looked it up, with the user's own keys.
    """

    requested_ref: str
    kind: PinKind
    commit: str
    committed_at: datetime | None = None
    is_outside: bool = False


class Provisioner:
    """Provides code from `cache`, and fetches into it.

    Args:
        cache: where code is kept.
        runner: runs the programs that fetch, sandboxed.
        direct: runs programs that need the user's own keys.
        environ: the user's environment.
        settings: the user's settings of sources.
        preloaded: returns the versions of the distributions of a worker's runtime, by name.
        progress: gets the steps of work that takes a while.
        offline: nothing is fetched.
        no_fetching: why, and what to do about it.
        live: folders run in place.
        lends_keys: the user accepted the text that names the sources: their own keys are used, and private addresses
            are asked.
        judge: refuses, by a `SourceError`, repositories that code may not come from, before any request is sent.
        builtin: the reference modules; by default those shipped with Paddock.
    """

    def __init__(
        self,
        cache: SourceCache,
        runner: CommandRunner,
        direct: CommandRunner,
        *,
        environ: Mapping[str, str],
        settings: SourceSettings,
        preloaded: Callable[[], Mapping[str, str]],
        progress: Progress,
        offline: bool = False,
        no_fetching: NoFetching = OFFLINE,
        live: bool = False,
        lends_keys: bool = True,
        judge: Callable[[GitUri], None] = lambda uri: None,
        builtin: BuiltinSource | None = None,
    ) -> None:
        self.settings = settings
        self._cache = cache
        self._git_runner = runner  # also offline, where it is given nothing to reach
        closed = RefusingRunner(lambda program: NotFetchedError(program, no_fetching))
        self._runner = closed if offline else runner
        self._direct = closed if offline else direct
        self._lends_keys = lends_keys
        self._lent: set[str] = set()  # repositories that the user's own rights may fetch all the same
        self._environ = environ
        self._preloaded = preloaded
        self._progress = progress
        self._offline = offline
        self._no_fetching = no_fetching
        self._live = live
        self._builtin = builtin if builtin is not None else BuiltinSource()
        self._dependencies = Dependencies(
            cache,
            self._runner,
            self._repository,
            judge,
            environ=environ,
            index=settings.index,
            preloaded=preloaded,
            progress=progress,
        )
        self._credentials: Credentials | None = None
        self._installed_here: InstalledDistributions | None = None
        self._making = threading.Lock()

    @property
    def is_offline(self) -> bool:
        """Whether nothing is fetched."""
        return self._offline

    # -- pinning ---------------------------------------------------------------------------

    def pin(self, uri: SourceUri, *, allow_impostor: bool = False) -> PinnedSource:
        """Return what a source is now.

        Raises:
            SourceError: that cannot be found out.
        """
        match uri:
            case GitUri():
                pin = self._git(uri).pin(allow_impostor=allow_impostor)
                return PinnedSource(pin.requested_ref, pin.kind, pin.commit, pin.committed_at, pin.is_outside)
            case FolderUri():
                return PinnedSource("", "folder", "")
            case PackageUri(version=""):
                return PinnedSource("", "installed", "")
            case PackageUri():
                return PinnedSource(uri.version, "version", uri.version)
            case _:
                return PinnedSource("", "builtin", "")

    def look(self, uri: SourceUri) -> PinnedSource:
        """Return what a source is now, without fetching; values that need a fetch are left out.

        Raises:
            SourceError: that cannot be found out.
        """
        if not isinstance(uri, GitUri):
            return self.pin(uri)
        pin = self._git(uri).look()
        return PinnedSource(pin.requested_ref, pin.kind, pin.commit, pin.committed_at, pin.is_outside)

    def needs_lock(self, uri: SourceUri) -> bool:
        """Return whether a source could change by tomorrow without a change on this machine."""
        match uri:
            case GitUri():
                return True
            case PackageUri():
                return bool(uri.version)
            case FolderUri():
                return declares_dependencies(uri.folder)
            case BuiltinUri():
                return self._builtin.has_dependencies(uri.module_id)
            case _:
                return False

    def is_outdated(self, uri: BuiltinUri, locked: LockedModule) -> bool:
        """Return whether a shipped module asks for other packages than its lock has, as after an upgrade.

        Raises:
            SourceError: it is not shipped, or its project file cannot be read.
        """
        return not self._dependencies.still_satisfy(self._builtin.resolve(uri.module_id).root, locked)

    def lock(
        self,
        uri: SourceUri,
        pinned: PinnedSource | None = None,
        *,
        previous: LockedModule | None = None,
        allow_impostor: bool = False,
        extras: Collection[str] = (),
        more: Collection[str] = (),
        rules: DependencyRules = NO_RULES,
    ) -> LockedModule:
        """Fetch a source and return its entry for a lock file; its key is the source's text.

        Dependencies in `previous` are kept where they still satisfy the code. Developers may want these `extras` of it,
        and `more` requirements that it does not name. All dependencies are within the `rules`, and the user's own.

        Raises:
            SourceError: it is unavailable, or cannot be reproduced later.
        """
        rules = self.rules(uri, rules)
        match uri:
            case GitUri():
                pinned = pinned or self.pin(uri, allow_impostor=allow_impostor)
                entry = self._git(uri).fetch(pinned.commit, allow_impostor=allow_impostor)
                root = _inside(uri, entry.root)
            case FolderUri():
                pinned = pinned or self.pin(uri)
                entry = self._snapshot(uri)
                root = entry.root
            case PackageUri(version=str(version)) if version:
                return self._lock_package(uri, rules)
            case BuiltinUri() if self.needs_lock(uri):
                return self._lock_shipped(uri, previous, extras=extras, more=more, rules=rules)
            case _:
                raise SourceUriError(uri.text, "there is nothing to lock: it is what is installed here")
        is_folder = isinstance(uri, FolderUri)
        is_mine = is_folder and self._lends_keys
        return LockedModule(
            source=without_credentials(uri.text),
            requested_ref=pinned.requested_ref,
            commit=pinned.commit,
            tree=entry.digest,
            subdirectory="" if is_folder else uri.subdirectory,
            permissions_digest=permissions_digest(PermissionRequest.read(root)),
            dependencies=self._dependencies.choose(
                root,
                previous,
                uri,
                mine=is_mine,
                keeps=is_mine or self._offline,
                extras=extras,
                more=more,
                rules=rules,
                top=entry.root,
            ),
            requested_kind="" if is_folder else pinned.kind,
            committed_at=pinned.committed_at,
        )

    # -- rules about dependencies ----------------------------------------------------------

    def rules(self, uri: SourceUri, rules: DependencyRules) -> DependencyRules:
        """Return the rules for the dependencies of a source together with those of the user's settings.

        Raises:
            SourceError: they contradict each other, or ask for a lock that this source cannot have.
        """
        rules = rules.joined(DependencyRules(self.settings.constraints))
        if rules.by_uv_lock and not isinstance(uri, (GitUri, FolderUri)):
            raise SourceError(
                f"`{uri.text}` has no `uv.lock` whose versions could be taken: it is no repository or folder",
                code="UvLockMissingError",
                hints=["take `dependencies: locked` out of its entry"],
            )
        return rules

    def contradiction(self, uri: SourceUri, locked: LockedModule, rules: DependencyRules) -> str | None:
        """Return how locked dependencies contradict the rules for them, in words, if they do.

        Code that is needed for an answer is fetched.

        Raises:
            SourceError: that cannot be found out, or the rules cannot be followed.
        """
        rules = self.rules(uri, rules)
        broken = rules.broken_by((one.name, one.version) for one in locked.dependencies)
        if broken:
            return "; ".join(one.shown for one in broken)
        if not rules.by_uv_lock or not isinstance(uri, (GitUri, FolderUri)):
            return None
        root = self._code(uri, locked)
        return self._dependencies.differs(root, _top(root, uri), locked, mine=self._is_mine(uri))

    def relock(self, uri: SourceUri, locked: LockedModule, rules: DependencyRules) -> LockedModule:
        """Return the same code with its dependencies chosen again within the rules.

        Raises:
            SourceError: no versions fit, or their files are unavailable.
        """
        rules = self.rules(uri, rules)
        match uri:
            case PackageUri():
                return replace(self._lock_package(uri, rules), source=locked.source)
            case BuiltinUri():
                chosen = self._lock_shipped(uri, locked, extras=(), more=(), rules=rules).dependencies
            case FolderUri() | GitUri():
                root = self._code(uri, locked)
                chosen = self._dependencies.choose(
                    root, locked, uri, mine=self._is_mine(uri), keeps=True, rules=rules, top=_top(root, uri)
                )
            case _:
                raise unavailable(uri.text, "a source whose dependencies are not chosen")
        return replace(locked, dependencies=chosen)

    def _is_mine(self, uri: SourceUri) -> bool:
        return isinstance(uri, FolderUri) and self._lends_keys

    # -- providing -------------------------------------------------------------------------

    def provide(
        self, uri: SourceUri, module_id: str, locked: LockedModule | None, rules: DependencyRules = NO_RULES
    ) -> Resolution:
        """Return a module, ready to be run; what the cache lacks is fetched, and must match the lock.

        The `rules` matter only for modules installed beside Paddock: their versions are fixed and may contradict them.

        Raises:
            SourceError: it is unavailable, or does not match the lock.
        """
        match uri:
            case BuiltinUri():
                resolution = replace(self._builtin.resolve(uri.module_id), module_id=module_id)
                if locked is None:
                    return resolution
            case PackageUri():
                return self._provide_package(uri, module_id, locked, rules)
            case FolderUri() if locked is None or self._live:
                folder = FileSource(uri.folder, cache=self._cache, live=self._live, place=uri.place)
                resolution = folder.resolve(module_id)
            case FolderUri() | GitUri() if locked is not None:
                # Rules name a folder by its path, and a repository by its address.
                held = uri if uri.place is not None else uri.held()
                name = without_credentials(held.text)
                code = self._code(uri, locked)
                resolution = FileSource(code, source=name).resolve(module_id)
                repository = _top(code, uri) if isinstance(uri, GitUri) else None
                resolution = replace(resolution, commit=locked.commit, tree=locked.tree, repository=repository)
            case _:
                raise unavailable(uri.text, "a source that is not locked")
        return replace(
            resolution,
            libraries=self._dependencies.provide(
                resolution, locked, uri, mine=isinstance(uri, FolderUri) and self._lends_keys
            ),
            own_versions=self._dependencies.own_versions(locked),
        )

    def missing(self, locked: LockedModule) -> tuple[str, ...]:
        """Return the locked parts that the cache lacks, in words for people."""
        code = ("its code",) if locked.tree and self._cached(locked.tree) is None else ()
        return (*code, *self._dependencies.missing(locked))

    def damage(self, locked: LockedModule) -> tuple[str, ...]:
        """Return the locked parts that are damaged in the cache, in words; reads all of them."""
        is_damaged = locked.tree and self._cache.problem_of(Bucket.TREES, locked.tree)
        return (*(("its code",) if is_damaged else ()), *self._dependencies.damage(locked))

    def tree_of(self, uri: FolderUri) -> str:
        """Return the digest of a folder's code as it is now."""
        return self._snapshot(uri).digest

    def module_ids(self, uri: SourceUri, locked: LockedModule | None) -> tuple[str, ...]:
        """Return the ids of the modules in a source.

        Raises:
            SourceError: it has no module, or is unavailable.
        """
        match uri:
            case BuiltinUri():
                return (uri.module_id,)
            case FolderUri():
                with telling_where_it_is(uri.folder):
                    return HeldModules.read(uri.folder).ids(os.path.realpath(uri.folder))
            case PackageUri():
                return self._package(uri).module_ids(distributions(locked) if locked is not None else ())
            case GitUri() if locked is not None:
                return HeldModules.read(self._code(uri, locked)).ids(uri.subdirectory or uri.url)
        raise unavailable(uri.text, "a source that is not locked")

    def request(self, locked: LockedModule) -> PermissionRequest | None:
        """Return the permissions that the locked manifest asks for; None for none, or where the cache has no manifest.

        Raises:
            ManifestError: a part of it is not understood.
        """
        tree = self._cached(locked.tree) if locked.tree else None
        return PermissionRequest.read(tree / locked.subdirectory) if tree is not None else None

    def find_installed(self, module_id: str) -> str | None:
        """Return the name of the installed distribution that has a module of this id, if any has."""
        found = self._installed().find(module_id)
        return found.name if found is not None else None

    # -- code ------------------------------------------------------------------------------

    def _lock_shipped(
        self,
        uri: BuiltinUri,
        previous: LockedModule | None,
        *,
        extras: Collection[str],
        more: Collection[str],
        rules: DependencyRules,
    ) -> LockedModule:
        """Return the lock of a module that came with Paddock: its dependencies, and nothing of its code."""
        root = self._builtin.resolve(uri.module_id).root
        chosen = self._dependencies.choose(
            root, previous, uri, mine=False, keeps=True, extras=extras, more=more, rules=rules
        )
        return LockedModule(source=uri.text, dependencies=chosen)

    def _code(self, uri: FolderUri | GitUri, locked: LockedModule) -> Path:
        """Return the folder of the module's code as it was locked."""
        if isinstance(uri, FolderUri):
            tree = self._cached(locked.tree)
            return part_of(uri.folder, tree if tree is not None else _expected(self._snapshot(uri), uri, locked.tree))
        # A lock file could name the digest of any tree in the cache, so the digest must also be that of this commit.
        return _inside(uri, _expected(self._git(uri).fetch(locked.commit), uri, locked.tree))

    def _snapshot(self, uri: FolderUri) -> TreeEntry:
        with telling_where_it_is(uri.folder):
            return snapshot(uri.folder, self._cache, uri.place)

    def _cached(self, tree: str) -> Path | None:
        entry = self._cache.trees.get(tree)
        return entry / Bucket.TREES.content if entry is not None else None

    def own_rights(self, uri: SourceUri, locked: LockedModule | None) -> OwnRightsError | None:
        """Return why a source takes the user's own rights, as far as its address says it, if it has to be fetched."""
        if self._lends_keys or self._offline or not isinstance(uri, GitUri) or uri.text in self._lent:
            return None
        if locked is not None and self._cached(locked.tree) is not None:
            return None
        from paddock_sources.git.remote import Remote

        try:
            remote = Remote.of(uri)
        except SourceUriError:
            return None  # git never gets that address: there is nothing to agree to, and a fetch says why
        if uri.is_inside:
            return OwnRightsError.of_host(uri.text, remote.scheme)
        return OwnRightsError.of_keys(uri.text, "ssh", "the plan") if remote.is_outside else None

    def lend(self, uris: Iterable[SourceUri]) -> None:
        """Have these sources be fetched with the user's own rights: the user said so."""
        self._lent.update(uri.text for uri in uris)

    def _git(self, uri: GitUri) -> GitSource:
        return self._repository(uri, True, uri)

    def _repository(self, uri: GitUri, is_users: bool, near: SourceUri) -> GitSource:
        """Return a repository that the user named, or, if not `is_users`, one that the code at `near` names.

        One that the user did not name is never fetched with the user's keys. Nor is it fetched if it is not on the
        public network, unless it is where that code is. An address of an unaccepted plan gets no credentials
        unencrypted, also if the user agreed to the address.
        """
        from paddock_sources.git.credentials import Credentials
        from paddock_sources.git.git_source import GitSource

        lends = is_users and (self._lends_keys or uri.text in self._lent)
        named_by = "a module" if self._lends_keys else "the plan"
        without_keys = RefusingRunner(lambda name: OwnRightsError.of_keys(uri.text, name, named_by))
        lends_keys = lends and (self._lends_keys or urlsplit(uri.url).scheme != "http")
        direct = self._direct if lends_keys or self._offline else without_keys
        is_beside = self._lends_keys and isinstance(near, GitUri) and _server_of(near) == _server_of(uri)
        is_users_word = lends or is_beside
        runner: CommandRunner = UserHostsRunner(self._git_runner) if is_users_word else self._git_runner
        if not (is_users_word or self._offline) and uri.is_inside:
            runner = direct = RefusingRunner(lambda name: OwnRightsError.of_host(uri.text))
        with self._making:
            if lends_keys and self._credentials is None:
                self._credentials = Credentials(direct, self._environ)
        return GitSource(
            uri,
            self._cache,
            runner,
            direct=direct,
            progress=self._progress,
            environ=self._environ,
            offline=self._offline,
            no_fetching=self._no_fetching,
            credentials=self._credentials if lends_keys else None,
        )

    # -- packages --------------------------------------------------------------------------

    def _package(self, uri: PackageUri, rules: DependencyRules = NO_RULES) -> PackageSource:
        from paddock_sources.package import PackageSource

        return PackageSource(
            uri.name,
            uri.version,
            cache=self._cache,
            python=self._dependencies.python,
            installed=self._installed(),
            preloaded=self._preloaded(),
            runner=self._runner,
            index=self._dependencies.index if uri.version else None,
            progress=self._progress,
            rules=rules,
        )

    def _lock_package(self, uri: PackageUri, rules: DependencyRules) -> LockedModule:
        """Return the lock of a package of the index, which is one of its own dependencies."""
        locked = self._package(uri, rules).lock()
        self._dependencies.check(locked)
        name = package_key(uri.name)
        return LockedModule(
            source=uri.text,
            requested_ref=uri.version,
            commit=next((one.version for one in locked if one.name == name), uri.version),
            permissions_digest=permissions_digest(None),
            hashes=next((one.hashes for one in locked if one.name == name), ()),
            dependencies=tuple(LockedDependency(one.name, one.version, one.hashes) for one in locked),
        )

    def _provide_package(
        self, uri: PackageUri, module_id: str, locked: LockedModule | None, rules: DependencyRules
    ) -> Resolution:
        package = self._package(uri, self.rules(uri, rules))
        if not uri.version:
            return package.resolve(module_id)
        if locked is None:
            raise unavailable(uri.text, "a source that is not locked")
        name = package_key(uri.name)
        found = next((one for one in distributions(locked) if one.name == name), None)
        if found is None or found.version != locked.commit or not found.is_version(uri.version):
            raise pin_mismatch(uri.text, uri.version, found.version if found is not None else "none")
        return package.provide(module_id, distributions(locked))

    def _installed(self) -> InstalledDistributions:
        from paddock_sources.environment.installed import InstalledDistributions

        with self._making:
            if self._installed_here is None:
                self._installed_here = InstalledDistributions()
            return self._installed_here


NO_RUNNER: Final[CommandRunner] = RefusingRunner(NotFetchedError)
"""Runs nothing, for callers that only look."""


def _server_of(uri: GitUri) -> str:
    return urlsplit(uri.url).netloc.rpartition("@")[2].lower()


def _expected(entry: TreeEntry, uri: SourceUri, tree: str) -> Path:
    """Return a tree's folder, if it is the one that was locked.

    Raises:
        SourceError: it is not.
    """
    if entry.digest != tree:
        raise pin_mismatch(uri.text, tree, entry.digest)
    return entry.root


def _top(root: Path, uri: FolderUri | GitUri) -> Path:
    """Return the folder of all the code that a source pins, given the part that an address names."""
    return root.parents[len(Path(uri.subdirectory).parts) - 1] if isinstance(uri, GitUri) and uri.subdirectory else root


def _inside(uri: GitUri, tree: Path) -> Path:
    """Return the folder in a repository's tree that an address names.

    Raises:
        SourceUriError: the tree has no such folder.
    """
    root = tree / uri.subdirectory
    if not root.is_dir():
        moved = moved_within(tree, uri.subdirectory)
        hints = [] if moved is None else [f"its module is in another folder: `{git_text(uri.url, uri.ref, moved)}`"]
        raise SourceUriError(uri.text, f"there is no folder `{uri.subdirectory}` in it", hints=hints)
    return root
