"""How a module in a repository is provided: pinned to a commit, whose files are fetched once."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from paddock_sources.cache import TreeEntry
from paddock_sources.constraints import DependencyRules
from paddock_sources.errors import ManifestError, OwnRightsError, SourceUriError, unavailable
from paddock_sources.kinds.git_uri import git_text
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.manifest.moved import moved_within
from paddock_sources.manifest.read import HeldModules
from paddock_sources.resolution import PinnedSource, Resolution
from paddock_sources.supplies.supply import Code, TreeSupply, expected
from paddock_sources.tree import SourceTree
from paddock_sources.uri import GitUri

if TYPE_CHECKING:
    from packaging.version import Version

    from paddock_sources.git.git_source import GitSource

_TAG: Final = re.compile(r"(?P<before>[^0-9]*)(?P<version>[0-9][0-9A-Za-z.+-]*)")
_MAX_TAG_CHARACTERS: Final = 100
_MAX_FILES: Final = 2000  # of a working tree that are compared
_MAX_BYTES: Final = 1 << 20  # of one of them
_BRANCHES: Final = "refs/heads/"

_log = logging.getLogger(__name__)


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
        return newer_tags(self._source(uri).tags(), locked.requested_ref, locked.commit)

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


def newer_tags(tags: Mapping[str, str], ref: str, commit: str) -> tuple[str, ...]:
    """Return the tags with a newer version than `ref`, or than a tag at `commit`, the newest first.

    Only tags that begin as that one does are compared, and of versions before a release only where that one is such.
    """
    versions = {name: version for name in tags if (version := _version_of(name)) is not None}
    of_commit = [name for name, at in tags.items() if at == commit and name in versions]
    now = ref if ref in versions else max(of_commit, key=lambda name: versions[name][1], default=None)
    if now is None:
        return ()
    before, current = versions[now]
    newer = [
        name
        for name, (begins, version) in versions.items()
        if begins == before and version > current and (current.is_prerelease or not version.is_prerelease)
    ]
    return tuple(sorted(newer, key=lambda name: versions[name][1], reverse=True))


def _version_of(tag: str) -> tuple[str, Version] | None:
    from packaging.version import InvalidVersion, Version

    match = _TAG.fullmatch(tag) if len(tag) <= _MAX_TAG_CHARACTERS else None
    try:
        return None if match is None else (match["before"], Version(match["version"]))
    except InvalidVersion:
        return None


def differing_file(repository: Path, ref: str, commit: Path) -> str:
    """Return a file of the tree `commit` that is otherwise in the working tree of `repository`; empty if none is found.

    Contents are compared, up to caps; git is not asked, as what a repository configures could run then. Files that no
    commit has are not looked for. Where another branch than `ref` is checked out, none is looked for; an empty `ref` is
    the one that is.
    """
    try:
        tree = SourceTree(repository)
        head = tree.read(".git/HEAD", limit_bytes=_MAX_BYTES) or b""
        branch = os.fsencode(_BRANCHES + ref.removeprefix(_BRANCHES))
        if not head or (ref and head.strip() != b"ref: " + branch):
            return ""
    except ManifestError:  # no repository with a working tree
        return ""
    return next((name for name, content in _files(commit) if _content(tree, name) != content), "")


def _files(commit: Path) -> Iterator[tuple[str, bytes]]:
    looked = 0
    for folder, folders, names in os.walk(commit):
        folders.sort()
        for path in (Path(folder, name) for name in sorted(names)):
            looked += 1
            if looked > _MAX_FILES:
                return
            if not path.is_symlink() and path.stat().st_size <= _MAX_BYTES:
                yield str(path.relative_to(commit)), path.read_bytes()


def _content(tree: SourceTree, name: str) -> bytes | None:
    try:
        return tree.read(name, limit_bytes=_MAX_BYTES)
    except ManifestError:  # too large by now, or no file any more
        return None
