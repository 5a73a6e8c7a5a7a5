"""How a module in a repository is provided: pinned to a commit, whose files are fetched once."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from paddock_sources.cache import TreeEntry
from paddock_sources.constraints import DependencyRules
from paddock_sources.errors import OwnRightsError, SourceUriError, unavailable
from paddock_sources.kinds.git_uri import git_text
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.manifest.moved import moved_within
from paddock_sources.manifest.read import HeldModules
from paddock_sources.resolution import PinnedSource, Resolution
from paddock_sources.supplies.supply import Code, TreeSupply, expected
from paddock_sources.uri import GitUri

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from paddock_sources.git.git_source import GitSource


class GitSupply(TreeSupply[GitUri]):
    """See `Supply`."""

    @property
    def is_mine(self) -> bool:
        return False

    def pin(self, uri: GitUri, *, allow_impostor: bool = False) -> PinnedSource:
        return self._source(uri).pin(allow_impostor=allow_impostor)

    def look(self, uri: GitUri) -> PinnedSource:
        return self._source(uri).look()

    def newer_tags(self, uri: GitUri, locked: LockedModule) -> tuple[str, ...]:
        if locked.requested_kind not in ("tag", "commit"):
            return ()
        from paddock_sources.git.newer_tags import newer_tags  # only an update asks for them

        return newer_tags(self._source(uri).tags(), locked.requested_ref, locked.commit)

    def needs_lock(self, uri: GitUri) -> bool:
        return True

    def fetched(self, uri: GitUri, commit: str, *, allow_impostor: bool) -> tuple[TreeEntry, Path]:
        entry = self._source(uri).fetch(commit, allow_impostor=allow_impostor)
        return entry, _inside(uri, entry.root)

    def code(self, uri: GitUri, locked: LockedModule) -> Code:
        # A lock file could name the digest of any tree in the cache, so the digest must also be that of this commit.
        top = expected(self._source(uri).fetch(locked.commit), uri.text, locked.tree)
        return Code(_inside(uri, top), top)

    def provide(
        self,
        uri: GitUri,
        module_id: str,
        locked: LockedModule | None,
        rules: DependencyRules,
    ) -> Resolution:
        if locked is None:
            raise unavailable(uri.text, "a source that is not locked")
        held = uri if uri.place is not None else uri.held()
        resolution, code = self.as_locked(uri, held, module_id, locked)
        _tell_of_work(held, locked, code)
        return self.with_libraries(replace(resolution, repository=code.top), locked, uri, mine=self.is_mine)

    def module_ids(self, uri: GitUri, locked: LockedModule | None) -> tuple[str, ...]:
        if locked is None:
            raise unavailable(uri.text, "a source that is not locked")
        return HeldModules.read(self.code(uri, locked).root).ids(uri.subdirectory or uri.url)

    def own_rights(self, uri: GitUri, locked: LockedModule | None) -> OwnRightsError | None:
        if locked is not None and self.workshop.cached(locked.tree) is not None:
            return None
        return self.workshop.repositories.own_rights(uri)

    def _source(self, uri: GitUri) -> GitSource:
        return self.workshop.repositories.source(uri, True, uri)


def _tell_of_work(uri: GitUri, locked: LockedModule, code: Code) -> None:
    """Warn of a repository of this machine where somebody works on the branch that is named: a commit runs instead."""
    if uri.place is None:
        return
    from paddock_sources.git.working_tree import differing_file  # few sources are on this machine

    name = differing_file(uri.place.path, locked.requested_ref, code.top)
    if name:
        _log.warning(
            "`%s` in the working tree of %s is not as in commit %s, which runs; "
            "name the folder to run it as it is: `%s`",
            name,
            uri.place.path,
            locked.commit[:12],
            uri.place.path / uri.subdirectory,
        )


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
