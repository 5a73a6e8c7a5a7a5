"""The code of a plan, as it is sent to nodes: trees of the cache by their digests, and the plan with its own folders.

The driver collects what the lock file pins, once; a tree goes to a node that lacks it. A node adds nothing to its cache
whose files are not those of the digest that came with it. A plan goes as the text of its file and of its lock file, in
folders that lie to each other as they do at the driver, so that both are read there as they are here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio.to_thread

from paddock.authorization.authorizer import Authorizer
from paddock.batch.local import SessionSettings
from paddock.errors import KindError, ModuleMissingError
from paddock.module_sources.resolve import ModuleSources
from paddock.plan.model import MountPlan
from paddock.ray.messages import Commit, Job, Tree
from paddock.ray.packing import BrokenPackError, PackedFile, digest_of, files_of, lay_out, pack
from paddock_sources import Resolution
from paddock_sources.cache import Bucket, SourceCache
from paddock_sources.cache.marker import NAME as MARKER
from paddock_sources.git.kept_commits import KeptCommit, KeptCommits
from paddock_sources.git.remote import Remote
from paddock_sources.kinds.git_uri import GitUri, repository
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile
from paddock_sources.snapshot import part_of, snapshot
from paddock_sources.uri import FolderUri, parse_source

_SHIPPED: Final = (Bucket.TREES, Bucket.ENVIRONMENTS)


@dataclass(frozen=True, slots=True)
class Shipment:
    """All that a node needs to run a plan.

    Attributes:
        job: the plan, as a pack.
        trees: its code in the cache, by digests.
        tokens: what is in files of the shared folders.
        lent: values of secrets.
    """

    job: bytes
    trees: Mapping[str, TreeAtHand]
    tokens: Mapping[str, str] = field(default_factory=dict)
    lent: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class TreeAtHand:
    """A tree in the driver's cache, in use as long as the cache is open; it is read whenever a node lacks it."""

    about: Tree
    folder: Path

    def packed(self) -> bytes:
        """Return the tree as a pack; blocks."""
        return pack(self.about, (one for one in files_of(self.folder) if one.path != MARKER))


async def shipment_of(
    plan: MountPlan,
    authorizer: Authorizer,
    settings: SessionSettings,
    environ: Mapping[str, str],
    cache: SourceCache,
) -> Shipment:
    """Return what a node needs for a plan; what the lock file pins and the cache lacks is fetched here.

    Raises:
        PaddockError: the plan is in no file, the lock file does not pin all of it, or code is unavailable.
    """
    if plan.origin is None:
        raise KindError("PlanNotShippedError", "a plan is sent to nodes as a file, and this one is in none")
    is_accepted = await authorizer.is_accepted(plan, trust_plan=settings.trust_plan)
    folder = plan.origin.parent
    sources = ModuleSources(
        cache,
        environ,
        folder,
        folder,
        authorizer.policy,
        settings.sources,
        lends_keys=is_accepted,
    )
    found = await sources.resolve(
        tuple(plan.entries()),
        plan.positions,
        rules=plan.rules_by_entry(),
    )
    for one in found.values():
        if isinstance(one, ModuleMissingError):
            raise one
    places = await anyio.to_thread.run_sync(lambda: dict(_folders(plan, found, cache)))
    root = Path(os.path.commonpath([folder, *places]))
    files = {one.path: one for at, of in places.items() for one in files_of(of, str(at.relative_to(root)))}
    lock = LockFile.read(folder / LOCK_FILE)
    for place in (plan.origin, folder / LOCK_FILE):  # one of those folders may be that of the plan
        if place.is_file():
            path = str(place.relative_to(root))
            files[path] = PackedFile(path, "file", place.read_bytes())
    job = Job(
        plan=str(plan.origin.relative_to(root)),
        commits=list(_commits(lock, cache)),
        is_trusted=is_accepted,
        isolation=settings.isolation,
        grants=dict(settings.grants),
    )
    resolutions = [one for one in found.values() if isinstance(one, Resolution)]
    return Shipment(pack(job, files.values()), _trees(resolutions, lock, cache))


def _folders(
    plan: MountPlan,
    found: Mapping[str, object],
    cache: SourceCache,
) -> Iterator[tuple[Path, Path]]:
    """Yield the plan's own folders of this machine, each with the folder that has its content as it was checked."""
    for entry in plan.entries():
        uri = None if entry.source is None else parse_source(entry.source)
        resolution = found[entry.path]
        if isinstance(uri, FolderUri) and isinstance(resolution, Resolution):
            yield uri.folder, resolution.root
    for place, is_pinned in {} if plan.bundles is None else plan.bundles.roots.values():
        if not is_pinned:
            yield place, part_of(place, snapshot(place, cache).root)


def _trees(
    resolutions: Iterable[Resolution],
    lock: LockFile,
    cache: SourceCache,
) -> dict[str, TreeAtHand]:
    """Return the trees and environments that modules are made of, and those of bundles."""
    used = [path for one in resolutions for path in (one.root, one.import_root, *one.further_code)]
    used += [place for row in lock.bundles if (place := cache.trees.get(row.tree)) is not None]
    trees: dict[str, TreeAtHand] = {}
    for path in used:
        for bucket in _SHIPPED:
            store = cache.store(bucket)
            if path.is_relative_to(store.folder):
                name = path.relative_to(store.folder).parts[0]
                marker = store.marker(name)
                if marker is not None:
                    about = Tree(
                        bucket=bucket.value,
                        name=name,
                        content=marker.contents.digest,
                    )
                    trees[name] = TreeAtHand(about, store.folder / name / bucket.content)
    return trees


def _commits(lock: LockFile, cache: SourceCache) -> Iterator[Commit]:
    """Yield what the cache notes of the commits that a lock file names."""
    rows = [*lock.modules, *lock.bundles]
    pins = [(row.source, row.commit) for row in rows]
    pins += [(one.source, one.commit) for row in rows for one in row.dependencies if one.commit]
    for source, commit in dict.fromkeys(pins):
        uri = parse_source(source)
        if isinstance(uri, GitUri):
            kept = KeptCommits(cache, Remote.of(uri)).get(commit, by_any_mirror=True)
            if kept is not None:
                yield Commit(
                    url=source,
                    commit=commit,
                    facts=dict(kept.facts),
                )


# -- at a node


def lacking_of(names: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return which trees the cache of this machine lacks; blocks."""
    with SourceCache.of_user(environ) as cache:
        return [name for name in names if all(cache.store(bucket).get(name) is None for bucket in _SHIPPED)]


def keep_tree(
    tree: Tree,
    files: Sequence[PackedFile],
    environ: Mapping[str, str],
) -> None:
    """Add a tree to the cache of this machine; blocks.

    Raises:
        BrokenPackError: its files are not those of its digest.
        CacheError: it cannot be kept.
        UnsafeTreeError: it has links that lead out of it.
    """
    bucket = next((one for one in _SHIPPED if one.value == tree.bucket), None)
    if bucket is None or digest_of(files) != tree.content:
        raise BrokenPackError(f"the files of `{tree.name[:100]}` are not those of its digest")
    with SourceCache.of_user(environ) as cache:
        cache.store(bucket).add(tree.name, lambda folder: lay_out(files, folder / bucket.content, with_links=True))


def keep_commits(commits: Iterable[Commit], environ: Mapping[str, str]) -> None:
    """Note in the cache of this machine which tree each commit is; blocks."""
    with SourceCache.of_user(environ) as cache:
        for one in commits:
            kept = KeptCommit.read(one.commit, one.facts)
            if kept is not None:
                KeptCommits(cache, Remote.of(repository(one.url))).note(kept)
