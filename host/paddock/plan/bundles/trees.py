"""The files of bundles, as folders of this machine: of a repository at the commit that a lock file pins, or local.

Nothing is fetched here: a caller that may fetch takes a subclass. Each file is read as data, within a size, and no link
leads out of its tree; in a local folder none is followed. What was read is counted in a digest, so that no plan is
accepted with other texts.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from paddock.plan.bundles.composition import Wanted
from paddock.plan.bundles.tree_path import TreePath
from paddock.plan.problems import NotAcceptedError
from paddock.plan.source_map import SourceNode
from paddock_sources import SourceError, SourceUriError
from paddock_sources.cache import Bucket, SourceCache
from paddock_sources.git.kept_commits import KeptCommits
from paddock_sources.git.remote import Remote
from paddock_sources.kinds.git_uri import GitUri, repository
from paddock_sources.lock.lock_file import LOCK_FILE, LockFile
from paddock_sources.lock.locked_module import LockedModule
from paddock_sources.tree import SourceTree


class PinnedTrees:
    """The trees in `cache` that the lock file of the folder `base` pins.

    `used` has the rows of the lock file that were used.
    """

    def __init__(self, cache: SourceCache, lock: LockFile, base: Path) -> None:
        self.used: dict[str, LockedModule] = {}
        self._cache = cache
        self._base = base
        self._rows = {row.source: row for row in lock.bundles}
        self._folders: dict[str, SourceTree] = {}
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The digest of all that was read, and of where it was."""
        return self._digest.hexdigest()

    def find(self, wanted: Wanted, most: int) -> tuple[str, str] | None:
        """Return the name and the text of the first file that is there, of at most `most` bytes; None if none is.

        Raises:
            NotAcceptedError: the tree is not at hand, or the file is no text that may be read.
        """
        folder = self._folder(wanted.tree, wanted.asked_by)
        try:
            for name in wanted.names:
                real = folder.find(name)
                if real is None or real.is_dir():
                    continue
                if TreePath(wanted.tree).is_local and real != folder.root / name:
                    raise NotAcceptedError(f"`{TreePath(wanted.tree, name).text}` is behind a link", "name the file")
                content = folder.read(name, limit_bytes=most)
                if content is not None:
                    return name, self._text(TreePath(wanted.tree, name), content)
        except SourceError as error:
            raise NotAcceptedError(error.summary, "name a text file of the same repository") from error
        return None

    def place_of(self, at: TreePath) -> Path:
        """Return where a place of a tree that was read is on this machine."""
        return self._folder(at.tree, None).root / at.path

    def row_of(self, uri: GitUri, asked_by: SourceNode | None) -> LockedModule:
        """Return the row that pins a repository.

        Raises:
            NotAcceptedError: it is not pinned, or its files are not in the cache; without a hint, a command locks it.
        """
        row = self._rows.get(uri.key(self._base))
        if row is None:
            raise NotAcceptedError(f"`{uri.text}` is not pinned in {self._base / LOCK_FILE}")
        # A lock file could name the digest of any tree in the cache, so it must also be that of this commit.
        kept = KeptCommits(self._cache, Remote.of(uri)).get(row.commit, by_any_mirror=True)
        if kept is None or not kept.is_reachable or kept.tree != row.tree or self._cache.trees.get(row.tree) is None:
            raise NotAcceptedError(f"the files of `{uri.text}` at {row.commit[:12]} are not in the cache")
        return row

    def _folder(self, tree: str, asked_by: SourceNode | None) -> SourceTree:
        if tree not in self._folders:
            self._folders[tree] = SourceTree(Path(tree) if tree.startswith("/") else self._pinned(tree, asked_by))
        return self._folders[tree]

    def _pinned(self, tree: str, asked_by: SourceNode | None) -> Path:
        try:
            row = self.row_of(repository(tree), asked_by)
        except SourceUriError as error:
            raise NotAcceptedError(error.summary, "write its address plainly") from error
        self.used[row.source] = row
        folder = self._cache.trees.get(row.tree)
        assert folder is not None, "its row is that of files in the cache"
        return folder / Bucket.TREES.content

    def _text(self, at: TreePath, content: bytes) -> str:
        for part in (at.text.encode("utf-8", "surrogateescape"), content):
            self._digest.update(len(part).to_bytes(8, "big") + part)
        try:
            text = content.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise NotAcceptedError(f"`{at.text}` is binary: no text in UTF-8", "name a text file") from error
        if "\0" in text:
            raise NotAcceptedError(f"`{at.text}` is binary: no text in UTF-8", "name a text file")
        return text
