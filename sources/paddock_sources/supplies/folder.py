"""How a module in a folder is provided: as it is now, from a copy in the cache, or as it was locked."""

from __future__ import annotations

import os
from pathlib import Path

from paddock_sources.cache import TreeEntry
from paddock_sources.constraints import DependencyRules
from paddock_sources.errors import OwnRightsError, pin_mismatch
from paddock_sources.file import FileSource
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.manifest.moved import telling_where_it_is
from paddock_sources.manifest.read import HeldModules, declares_dependencies
from paddock_sources.resolution import PinnedSource, Resolution
from paddock_sources.snapshot import part_of, snapshot
from paddock_sources.supplies.supply import Code, StaleLock, TreeSupply, expected
from paddock_sources.uri import FolderUri


class FolderSupply(TreeSupply[FolderUri]):
    """See `Supply`."""

    @property
    def is_mine(self) -> bool:
        return self.workshop.lends_keys

    def pin(self, uri: FolderUri, *, allow_impostor: bool = False) -> PinnedSource:
        return PinnedSource("", "folder", "")

    def needs_lock(self, uri: FolderUri) -> bool:
        return declares_dependencies(uri.folder)

    def fetched(self, uri: FolderUri, commit: str, *, allow_impostor: bool) -> tuple[TreeEntry, Path]:
        entry = self._snapshot(uri)
        return entry, entry.root

    def code(self, uri: FolderUri, locked: LockedModule) -> Code:
        tree = self.workshop.cached(locked.tree)
        if tree is None:
            tree = expected(self._snapshot(uri), uri.text, locked.tree)
        root = part_of(uri.folder, tree)
        return Code(root, root)

    def stale(self, uri: FolderUri, locked: LockedModule) -> StaleLock | None:
        entry = self._snapshot(uri)
        if entry.digest == locked.tree:
            return None
        is_same = entry.with_compiled == locked.tree
        reason = "locked with compiled code, which is left out now" if is_same else "changed since it was locked"
        return StaleLock(
            reason,
            f"the code in {locked.source} was {reason}: it runs as it is now and is locked again; `--locked` refuses "
            "that, `--frozen` runs what was locked",
            pin_mismatch(uri.text, locked.tree, entry.digest, entry.with_compiled),
        )

    def is_as_locked(self, uri: FolderUri, pinned: PinnedSource, locked: LockedModule) -> bool:
        return self._snapshot(uri).digest == locked.tree

    def provide(
        self, uri: FolderUri, module_id: str, locked: LockedModule | None, rules: DependencyRules
    ) -> Resolution:
        if locked is None or self.workshop.live:
            folder = FileSource(uri.folder, cache=self.workshop.cache, live=self.workshop.live, place=uri.place)
            resolution = folder.resolve(module_id)
        else:
            held = uri if uri.place is not None else uri.held()
            resolution, _ = self.as_locked(uri, held, module_id, locked)
        return self.with_libraries(resolution, locked, uri, mine=self.is_mine)

    def module_ids(self, uri: FolderUri, locked: LockedModule | None) -> tuple[str, ...]:
        with telling_where_it_is(uri.folder):
            return HeldModules.read(uri.folder).ids(os.path.realpath(uri.folder))

    def own_rights(self, uri: FolderUri, locked: LockedModule | None) -> OwnRightsError | None:
        return None

    def _snapshot(self, uri: FolderUri) -> TreeEntry:
        with telling_where_it_is(uri.folder):
            return snapshot(uri.folder, self.workshop.cache, uri.place)
