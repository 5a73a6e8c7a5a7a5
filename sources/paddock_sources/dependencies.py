"""Choose what code depends on once, write it to a lock file, and provide the same from then on.

Packages come from the index, as wheels with hashes. Repositories are pinned to a commit, as the module itself is.
Nothing of either is executed. Locked dependencies that are in the cache are provided without asking any server.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock_sources.cache import Bucket
from paddock_sources.constraints import NO_RULES, DependencyRules, refuse_contradictions
from paddock_sources.errors import SourceError, SourceUriError, pin_mismatch
from paddock_sources.kinds.git_uri import GitUri, repository
from paddock_sources.lock.locked_module import LockedDependency, LockedModule
from paddock_sources.manifest.read import HeldModules
from paddock_sources.means import Means
from paddock_sources.resolution import Resolution
from paddock_sources.tree import SourceTree
from paddock_sources.uri import SourceUri, parse_source

if TYPE_CHECKING:
    from paddock_sources.environment.builder import Environments
    from paddock_sources.environment.index import Index
    from paddock_sources.environment.interpreter import Interpreter
    from paddock_sources.environment.locked import LockedDistribution
    from paddock_sources.environment.requirements import Requirements
    from paddock_sources.environment.siblings import Siblings
    from paddock_sources.environment.uv_lock import UvLock
    from paddock_sources.git.git_source import GitSource, RepositoryMaker

# Packages that a worker's runtime needs in its own version: it imports them before anything of a module.
_KEPT: Final = "msgpack"
# The contract's models are written with it, from this version on.
_OF_CONTRACT: Final = ("pydantic", "2.10")
_MAX_REPOSITORIES: Final = 20  # that one module depends on, directly or not


@dataclass(frozen=True, slots=True)
class Choice:
    """How code is locked: its dependencies within `rules`, those of `previous` kept where they still satisfy the code.

    Developers may want these `extras` of it, and `more` requirements that it does not name. With `allow_impostor`, no
    branch or tag need lead to its commit.
    """

    rules: DependencyRules = NO_RULES
    previous: LockedModule | None = None
    extras: Collection[str] = ()
    more: Collection[str] = ()
    allow_impostor: bool = False


@dataclass(frozen=True, slots=True)
class _Library:
    """A repository that a module depends on, and the dependencies of its code."""

    dependency: LockedDependency
    needs: Requirements


@dataclass(eq=False)
class Dependencies:
    """Chooses and provides what modules depend on.

    `git` makes the source of a repository, with the user's keys or without, for the code at another source. Versions of
    a worker's runtime are kept to where a module allows it.
    """

    means: Means
    git: RepositoryMaker

    @property
    def index(self) -> Index:
        """The index that packages come from.

        Raises:
            IndexUrlError: the index that the user named cannot be used.
        """
        from paddock_sources.environment.index import Index

        return Index.of(self.means.environ, self.means.settings.index)

    @property
    def registry(self) -> Index:
        """The registry that packages of npm come from.

        Raises:
            IndexUrlError: the registry that the user named cannot be used.
        """
        from paddock_sources.environment.index import Index

        return Index.of_npm(self.means.environ, self.means.settings.npm)

    @cached_property
    def python(self) -> Interpreter:
        """The Python that runs modules."""
        from paddock_sources.environment.interpreter import Interpreter

        return Interpreter.this()

    @property
    def environments(self) -> Environments:
        """What chooses and installs packages of the index; raises as `index` does."""
        from paddock_sources.environment.builder import Environments

        means = self.means
        return Environments(means.cache, means.fetcher, self.index, self.python, means.progress)

    # -- choosing --------------------------------------------------------------------------

    def choose(
        self,
        root: Path,
        near: SourceUri,
        choice: Choice,
        *,
        mine: bool,
        keeps: bool,
        top: Path | None = None,
        commit: str = "",
    ) -> tuple[LockedDependency, ...]:
        """Return what the project in `root`, of the source `near`, depends on, each in one version; repositories first.

        If `near` is a repository, `top` has its files at `commit`, and projects in there are taken from there.
        `mine` means that the user wrote the code: it may name any repository, and has it fetched with the user's keys.
        `keeps` means that packages that satisfy the requirements are not chosen again: for code that changes all the
        time, or without a connection. The project's own `uv.lock` may lie in any folder from `root` up to `top`.

        Raises:
            SourceError: there is no such choice, or it cannot be found out.
        """
        rules, previous, extras = choice.rules, choice.previous, choice.extras
        if not (choice.more or rules.by_uv_lock or (root / "pyproject.toml").is_file()):
            return ()
        from paddock_sources.environment.contract import CONTRACT, CONTRACT_VERSION
        from paddock_sources.environment.requirements import Requirements
        from paddock_sources.environment.siblings import Siblings

        siblings = None
        if isinstance(near, GitUri) and top is not None:
            siblings = Siblings(near, top, self.means.preloaded())
        needs = Requirements.of(
            root, self.python, extras=extras, more=choice.more, may_name_local=mine, siblings=siblings
        )
        own = self._uv_lock(root, top, needs, extras) if rules.by_uv_lock else None
        bounds = rules.constraints
        if own is not None:
            bounds = (*bounds, *own.constraints)
            refuse_contradictions(bounds)
        libraries = tuple(self._libraries(needs, previous, near, mine=mine, own=own, siblings=siblings, commit=commit))
        if own is not None:
            own.check_repositories([one.dependency.name for one in libraries])
        for broken in rules.broken_by((one.dependency.name, one.dependency.version) for one in libraries):
            raise SourceError(
                f"it depends on a repository with {broken.shown}",
                code="BoundsError",
                hints=[
                    "widen the constraint, or have the module name another version: none is looked for in a repository"
                ],
            )
        together = needs.joined(*(one.needs for one in libraries))
        before = distributions(previous) if previous is not None else ()
        versions = {one.dependency.name: one.dependency.version for one in libraries}
        fits = keeps and before and together.index and _satisfy(before, together) and own is None
        if not fits or rules.broken_by((one.name, one.version) for one in before):
            kept = {**self.means.preloaded(), **{one.name: one.version for one in before}}
            before = self.environments.resolve(
                together,
                constraints={} if own is not None else kept,  # if it needs others, a worker of its own kind is started
                bounds=bounds,
                provided={CONTRACT: CONTRACT_VERSION, **versions},
            )
        if own is not None:
            before = own.narrowed(before)
        self.check(before)
        packages = (LockedDependency(one.name, one.version, one.hashes) for one in before)
        return (*(one.dependency for one in libraries), *packages)

    def differs(self, root: Path, top: Path, locked: LockedModule, *, mine: bool) -> str | None:
        """Return how locked dependencies differ from the `uv.lock` of the project in `root`, if they do.

        Raises:
            SourceError: the lock cannot be followed.
        """
        from paddock_sources.environment.requirements import Requirements

        own = self._uv_lock(root, top, Requirements.of(root, self.python, may_name_local=mine), ())
        return own.difference(locked.dependencies)

    def _uv_lock(
        self,
        root: Path,
        top: Path | None,
        needs: Requirements,
        extras: Collection[str],
    ) -> UvLock:
        from paddock_sources.environment.uv_lock import UvLock

        return UvLock.read(root, top or root, needs, self.python, extras)

    def check(self, locked: Sequence[LockedDistribution]) -> None:
        """Refuse versions of the runtime's own packages that a worker cannot run with.

        Raises:
            SourceError: one of them is such a version.
        """
        from packaging.version import Version

        name, oldest = _OF_CONTRACT
        for one in locked:
            if one.name == _KEPT and one.version != self.means.preloaded()[_KEPT]:
                raise _unusable_version(one, f"only version {self.means.preloaded()[_KEPT]} will do")
            if one.name == name and Version(one.version) < Version(oldest):
                raise _unusable_version(one, f"the contract needs {oldest} or later")

    def _libraries(
        self,
        needs: Requirements,
        previous: LockedModule | None,
        near: SourceUri,
        *,
        mine: bool,
        own: UvLock | None,
        siblings: Siblings | None,
        commit: str,
    ) -> Iterator[_Library]:
        """Yield the repositories that code depends on, directly or not, pinned as before.

        If there is a lock of the module's `own`, they are where that has them; its siblings are at its own `commit`.
        """
        from paddock_sources.environment.requirements import Requirements

        before = {one.source: one for one in _repositories(previous)} if previous is not None else {}
        waiting, seen = [(direct, mine) for direct in needs.direct], set[str]()
        while waiting:
            direct, is_mine = waiting.pop(0)
            if direct.name in seen:
                continue
            seen.add(direct.name)
            if len(seen) > _MAX_REPOSITORIES:
                raise SourceUriError(direct.uri.text, f"a module may depend on {_MAX_REPOSITORIES} repositories")
            uri = direct.uri.held()
            source = uri.key(Path("/"))
            self.means.judge(uri)
            git = self._beside(near) if direct.is_beside else self.git(uri, is_mine, near)
            if direct.is_beside:
                at = commit
            elif own is not None:
                at = own.commit_of(direct.name, direct.uri.url)
            else:
                at = before[source].commit if source in before else git.pin().commit
            entry = git.fetch(at)
            root = entry.root / uri.subdirectory
            its = Requirements.of(
                root, self.python, extras=direct.extras, siblings=siblings if direct.is_beside else None
            )
            waiting += [(one, False) for one in its.direct]
            version = its.version or f"0+{at[:12]}"
            yield _Library(LockedDependency(direct.name, version, (), source, at, entry.digest), its)

    def _beside(self, near: SourceUri) -> GitSource:
        """Return the repository of a module, which its siblings are in, with the module's own rights."""
        assert isinstance(near, GitUri), "only code of a repository has siblings"
        return self.git(near, True, near)

    def still_satisfy(self, root: Path, locked: LockedModule) -> bool:
        """Return whether the locked dependencies meet the current requirements of the project in `root`.

        Raises:
            RequirementsError: its project file cannot be read.
        """
        from paddock_sources.environment.requirements import Requirements

        return _satisfy(distributions(locked), Requirements.of(root, self.python))

    # -- providing -------------------------------------------------------------------------

    def provide(
        self, resolution: Resolution, locked: LockedModule | None, near: SourceUri, *, mine: bool
    ) -> tuple[Path, ...]:
        """Return the folders with all that a module needs from elsewhere, installing what is missing.

        Raises:
            SourceError: something is unavailable, or differs from what was locked.
        """
        folders = [self._metadata(resolution.root, resolution.commit or resolution.tree)]
        for one in locked.dependencies if locked is not None else ():
            if one.commit:
                folders += self._library(one, near, resolution.commit, mine=mine)
        wanted = self._wanted(locked)
        if wanted:
            folders.append(self._installed(wanted) or self.environments.install(wanted, resolution.module_id))
        return tuple(dict.fromkeys(folder for folder in folders if folder is not None))

    def own_versions(self, locked: LockedModule | None) -> tuple[str, ...]:
        """Return the packages of a worker's runtime that the module has in another version."""
        return tuple(one.name.replace("-", "_") for one in self._wanted(locked) if one.name in self.means.preloaded())

    def missing(self, locked: LockedModule) -> tuple[str, ...]:
        """Return which of them the cache lacks, in words for people."""
        lacking = [_told(one) for one in _repositories(locked) if self._tree(one.tree) is None]
        wanted = self._wanted(locked)
        if wanted and self._installed(wanted) is None:
            lacking.append(", ".join(f"{one.name} {one.version}" for one in wanted))
        return tuple(lacking)

    def damage(self, locked: LockedModule) -> tuple[str, ...]:
        """Return which of them are damaged in the cache, in words; reads all of them."""
        damaged = [_told(one) for one in _repositories(locked) if self.means.cache.problem_of(Bucket.TREES, one.tree)]
        wanted = self._wanted(locked)
        if wanted:
            from paddock_sources.environment.locked import environment_digest

            if self.means.cache.problem_of(Bucket.ENVIRONMENTS, environment_digest(wanted, self.python)):
                damaged.append("what it depends on")
        return tuple(damaged)

    def _wanted(self, locked: LockedModule | None) -> tuple[LockedDistribution, ...]:
        """Return what has to be installed: all that a worker's runtime does not have in the same version.

        A process of its own has all of it from there.
        """
        if locked is None or not locked.dependencies:
            return ()
        if parse_source(locked.source).is_apart:
            return distributions(locked)
        from paddock_sources.environment.locked import without_preloaded

        return without_preloaded(distributions(locked), self.means.preloaded())

    def _library(
        self,
        one: LockedDependency,
        near: SourceUri,
        commit: str,
        *,
        mine: bool,
    ) -> Iterator[Path | None]:
        """Yield the folders of a repository that a module, which is at `commit`, depends on."""
        uri = repository(one.source).held()
        is_beside = isinstance(near, GitUri) and one.commit == commit and uri.url == near.held().url
        if not (mine or is_beside or uri.url.startswith("https://")):
            raise SourceUriError(one.source, "what a fetched module depends on comes by https alone")
        self.means.judge(uri)
        entry = (self._beside(near) if is_beside else self.git(uri, mine, near)).fetch(one.commit)
        if entry.digest != one.tree:
            raise pin_mismatch(one.source, one.tree, entry.digest, entry.with_compiled)
        root = entry.root / uri.subdirectory
        yield _import_root(root, one.name)
        yield self._metadata(root, one.commit)

    def _tree(self, digest: str) -> Path | None:
        entry = self.means.cache.trees.get(digest)
        return entry / Bucket.TREES.content if entry is not None else None

    def _metadata(self, root: Path, version: str) -> Path | None:
        """Return the folder with a project's metadata, as if it were installed; None for one without a name."""
        from paddock_sources.environment.metadata import distribution_metadata

        found = distribution_metadata(root, version) if (root / "pyproject.toml").is_file() else None
        return found.provide(self.means.cache) if found is not None else None

    def _installed(self, wanted: Sequence[LockedDistribution]) -> Path | None:
        from paddock_sources.environment.locked import installed

        return installed(wanted, cache=self.means.cache, python=self.python)


def distributions(locked: LockedModule) -> tuple[LockedDistribution, ...]:
    """Return the packages of the index that a locked module depends on."""
    from paddock_sources.environment.locked import LockedDistribution

    packages = (one for one in locked.dependencies if not (one.commit or one.path))
    return tuple(LockedDistribution(one.name, one.version, one.hashes) for one in packages)


def _repositories(locked: LockedModule) -> Iterator[LockedDependency]:
    return (one for one in locked.dependencies if one.commit)


def _unusable_version(one: LockedDistribution, problem: str) -> SourceError:
    """Return the error for a version of a runtime's package that a worker cannot run with."""
    return SourceError(
        f"it needs `{one.name}` {one.version}, which modules are run with here: {problem}",
        code="OwnVersionError",
        hints=[f"take a version of the module that can do with another `{one.name}`"],
    )


def _import_root(root: Path, name: str) -> Path:
    """Return the folder of a project for `sys.path`: the one with its package, whether a module's or any other."""
    from paddock_sources.environment.project_file import wheel_packages

    tree, package = SourceTree(root), name.replace("-", "_")
    for folder in ("", "src"):
        if tree.is_package(os.path.join(folder, package)) or tree.find(os.path.join(folder, f"{package}.py")):
            return tree.root / folder
    if (packages := wheel_packages(root)) and tree.is_package(packages[0]):
        return (tree.root / packages[0]).parent
    held = HeldModules.read(root)
    return held.manifest(held.ids(name)[0]).import_root


def _told(one: LockedDependency) -> str:
    return f"{one.name} {one.commit[:12]}"


def _satisfy(chosen: Sequence[LockedDistribution], needs: Requirements) -> bool:
    """Whether each requirement is met by the previous choice."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    versions = {one.name: one.version for one in chosen}
    for line in needs.index:
        wanted = Requirement(line)
        version = versions.get(canonicalize_name(wanted.name))
        # The requirements of an extra were not recorded with it.
        if version is None or wanted.extras or not wanted.specifier.contains(version, prereleases=True):
            return False
    return True
