"""Fetch and pin the bundles that a plan extends, and those that they include, through the sources.

A repository is pinned once, whichever bundles of it are included. It is fetched without the user's own keys, and from
public hosts only, unless the person named it at that moment: the texts of bundles, which name the others, are not
theirs. Which files are read is the composition's matter; nothing is parsed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from paddock.errors import KindError
from paddock.isolation.commands.cancellation import check_cancelled
from paddock.module_sources.lock import update_lock
from paddock.module_sources.provisioning import SourceOptions, provisioning
from paddock.plan import EXTENDS
from paddock.plan.bundles.trees import PinnedTrees
from paddock.plan.load import load_plan
from paddock.plan.model import MountPlan
from paddock.plan.problems import NotAcceptedError
from paddock.plan.source_map import SourceNode
from paddock.policy.evaluate import refuse_sources
from paddock.policy.files.policy import Policy
from paddock_sources import SourceError
from paddock_sources.cache import SourceCache
from paddock_sources.errors import OwnRightsError, not_locked, pin_mismatch
from paddock_sources.kinds.git_uri import GitUri
from paddock_sources.lock.lock_file import LOCK_FILE, LockedModule, LockFile
from paddock_sources.locked_sources import LockUse
from paddock_sources.provisioner import Provisioner
from paddock_sources.resolution import PinnedSource
from paddock_sources.supplies.git import GitSupply


@dataclass(frozen=True, slots=True)
class BundleOptions:
    """Options for getting bundles.

    With `lends_keys`, those that the plan itself names are fetched with the user's keys and from private hosts, too.
    With `renews`, branches and tags are looked up again; a newer commit is taken unless the function returns why not.
    The plan's file may be `written` later. Else they are got as modules are.
    """

    sources: SourceOptions
    lends_keys: bool = False
    renews: Callable[[LockedModule, PinnedSource], str] | None = None
    written: bytes | None = None


@dataclass(frozen=True, slots=True)
class Pinned:
    """A plan with its bundles at hand: the rows that were `moved`, by the former ones, and why others were `held`."""

    plan: MountPlan
    moved: tuple[tuple[LockedModule | None, LockedModule], ...]
    held: Mapping[str, str]


async def pin_bundles(plan: Path, environ: Mapping[str, str], options: BundleOptions) -> Pinned | None:
    """Return a plan with its bundles, fetched and pinned in the lock file beside it; None if it extends nothing.

    Raises:
        PlanError: the plan, or a bundle, has problems, or one cannot be had.
        PolicyRefusedError: no bundle may come from one of the addresses.
        KindError: the lock file cannot be used.
        PolicyFileError: the user's settings, or a policy, cannot be trusted or understood.
    """
    if not await anyio.to_thread.run_sync(_may_extend, plan, options.written):
        return None
    policy = await anyio.to_thread.run_sync(Policy.load, environ)
    with SourceCache.of_user(environ, check=check_cancelled) as cache:
        async with provisioning(
            environ,
            cache,
            options.sources,
            lends_keys=False,
            policy=policy,
        ) as provider:
            return await anyio.to_thread.run_sync(_Pinning(plan, environ, options, cache, policy, provider).run)


def _may_extend(plan: Path, written: bytes | None) -> bool:
    """Return whether the text of a plan has the word at all; reading it says what is wrong with it."""
    try:
        return EXTENDS.encode() in (written or (plan.read_bytes() if plan.is_file() else b""))
    except (OSError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class _Pinning:
    file: Path
    environ: Mapping[str, str]
    options: BundleOptions
    cache: SourceCache
    policy: Policy
    provider: Provisioner

    def run(self) -> Pinned:
        fetched: list[FetchedTrees] = []

        @contextmanager
        def trees_of(base: Path, lock: LockFile) -> Iterator[PinnedTrees]:
            trees = FetchedTrees(self, lock, base)
            fetched.append(trees)
            yield trees

        plan = load_plan(self.file, written=self.options.written, environ=self.environ, trees_of=trees_of)
        news = {key: row for trees in fetched for key, row in trees.news.items()}
        if news:
            path = self.file.resolve().parent / LOCK_FILE

            def with_news(lock: LockFile) -> LockFile:
                rows = {row.source: row for row in lock.bundles} | {key: row for key, (_, row) in news.items()}
                return lock.with_bundles(rows.values())

            try:
                update_lock(path, with_news, self.environ)
            except SourceError as error:
                raise KindError.of_sources(error) from error
        return Pinned(plan, tuple(news.values()), {key: why for trees in fetched for key, why in trees.held.items()})


class FetchedTrees(PinnedTrees):
    """Trees that are fetched if they are missing.

    `news` has rows for the lock file, each with the one before, and `held` why newer commits were not taken.
    """

    def __init__(self, pinning: _Pinning, lock: LockFile, base: Path) -> None:
        super().__init__(pinning.cache, lock, base)
        self.news: dict[str, tuple[LockedModule | None, LockedModule]] = {}
        self.held: dict[str, str] = {}
        self._pinning = pinning

    def row_of(self, uri: GitUri, asked_by: SourceNode | None) -> LockedModule:
        key = uri.key(self._base)
        row = self._rows.get(key)
        is_own = asked_by is None or asked_by.file == str(self._pinning.file)
        place = EXTENDS if asked_by is None or is_own else f"{asked_by.file}:{asked_by.line}"
        refuse_sources({place: uri.at_commit() if row is None else uri.at_commit(row.commit)}, self._pinning.policy)
        if is_own and self._pinning.options.lends_keys:
            self._pinning.provider.lend([uri])
        try:
            found = self._fetched(uri, key, row)
        except OwnRightsError as error:
            if is_own:
                raise NotAcceptedError(error.summary) from error
            hint = "if you trust it, name it in the plan's `extends` as well, before the others"
            raise NotAcceptedError(error.summary, hint) from error
        except SourceError as error:
            raise NotAcceptedError(error.summary, "; ".join(error.hints)) from error
        if found != row:
            self._rows[key], self.news[key] = found, (row, found)
        return found

    def _fetched(self, uri: GitUri, key: str, row: LockedModule | None) -> LockedModule:
        supply = self._pinning.provider.supply(uri)
        assert isinstance(supply, GitSupply)
        renews = None if key in self.used else self._pinning.options.renews
        if row is not None and renews is not None:
            pinned = supply.pin(uri)
            self.held[key] = renews(row, pinned) if pinned.commit != row.commit else ""
            if self.held[key] or pinned.commit == row.commit:
                renews = None
        if row is not None and renews is None:
            entry, _ = supply.fetched(uri, row.commit, allow_impostor=False)
            if entry.digest != row.tree:
                raise pin_mismatch(uri.text, row.tree, entry.digest, entry.with_compiled)
            return row
        if self._pinning.options.sources.use is not LockUse.UPDATE:
            raise not_locked(key, self._pinning.options.sources.use.value)
        pinned = supply.pin(uri)
        entry, _ = supply.fetched(uri, pinned.commit, allow_impostor=False)
        return LockedModule(
            source=key,
            requested_ref=pinned.requested_ref,
            commit=pinned.commit,
            tree=entry.digest,
            requested_kind=pinned.kind,
            committed_at=pinned.committed_at,
        )
