"""Work with git in one session: resolve a ref, fetch a commit, and put its files into the cache.

There is no checkout: the tree is written from blobs, so that no filter, attribute, hook or submodule of a repository
has any effect. This module imports GitPython; files in the cache are found without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from paddock_sources.cache import TreeEntry, TreeWriter, UnsafeTreeError
from paddock_sources.commands.command_runner import CommandSession
from paddock_sources.git.errors import FetchCode, FetchError
from paddock_sources.git.git_config import GitLimits
from paddock_sources.git.git_folder import has_objects, history_in, objects_in
from paddock_sources.git.git_output import BlobError, GitOutputError, TreeLine
from paddock_sources.git.kept_commits import KeptCommit, KeptCommits
from paddock_sources.git.remote import Remote
from paddock_sources.git.repository import Commit, Repository
from paddock_sources.progress import Phase, Progress, ProgressStep
from paddock_sources.ref_name import is_commit, is_like_commit
from paddock_sources.resolution import PinnedSource, RefKind

_PROGRESS = re.compile(r"(Receiving objects|Resolving deltas): +[0-9]+% \(([0-9]{1,9})/([0-9]{1,9})\)")
_PHASES: dict[str, Phase] = {"Receiving objects": "fetching", "Resolving deltas": "unpacking"}
_FILES_A_STEP = 250
_DEFAULT = ("", "HEAD")  # two names of a server's default branch
_WHOLE_HINT = "write all 40 digits of the commit: a part of its name may be another's tomorrow"


class GitWork:
    """Works in `session` for `remote`, whose repositories are in `folder`; the caller holds the remote's lock."""

    def __init__(
        self,
        remote: Remote,
        session: CommandSession,
        folder: Path,
        kept: KeptCommits,
        *,
        limits: GitLimits,
        progress: Progress,
        was_given: bool = False,
    ) -> None:
        self._remote = remote
        self._folder = folder
        self._kept = kept
        self._limits = limits
        self._progress = progress
        self._objects, self._history = (
            Repository(remote, session, place, limits, self._listen, was_given=was_given)
            for place in (objects_in(folder), history_in(folder))
        )

    def pin(self, ref: str, *, allow_impostor: bool) -> PinnedSource:
        """Return what a ref is now, with its files in the cache.

        Raises:
            FetchError: the ref does not exist, its repository does not lead to it, or it cannot be fetched.
            UnsafeTreeError: it has files that are not safe to write.
        """
        if is_commit(ref):
            kind: RefKind = "commit"
            name, is_reachable = ref, self._bring(ref, allow_impostor=allow_impostor)
        else:
            if has_objects(self._folder):
                pin = self.look(ref)
                if pin.commit in self._kept:
                    return pin
            kind, name = self._fetch_named(ref)
            is_reachable = True
        commit = self._present(name)
        self._keep(commit, is_reachable=is_reachable)
        return PinnedSource(ref, kind, commit.name, commit.committed_at, self._remote.is_outside, is_reachable)

    def look(self, ref: str) -> PinnedSource:
        """Return what a branch or tag, or the default branch, is now, without fetching it."""
        found: tuple[RefKind, str] | None
        if ref in _DEFAULT:
            commit = self._objects.default()
            found = ("default", commit) if commit is not None else None
        else:
            found = self._objects.refs(ref).find(ref)
        if found is None:
            raise self._not_found(ref)
        kept = self._kept.get(found[1])
        committed_at = kept.committed_at if kept is not None else None
        return PinnedSource(ref, found[0], found[1], committed_at, is_outside=self._remote.is_outside)

    def tags(self) -> Mapping[str, str]:
        """Return the tags of the repository, and the commits that they are at."""
        return self._objects.refs().tags

    def fetch(self, commit: str, *, allow_impostor: bool) -> TreeEntry:
        """Return the files of a commit, which are in the cache then.

        Raises:
            FetchError: its repository does not lead to it, or it cannot be fetched.
            UnsafeTreeError: it has files that are not safe to write.
        """
        is_reachable = self._bring(commit, allow_impostor=allow_impostor)
        return self._keep(self._present(commit), is_reachable=is_reachable)

    def restore(self, kept: KeptCommit) -> TreeEntry | None:
        """Return the files of a commit from the objects that were fetched before; None where they are not enough."""
        commit = self._objects.commit(kept.commit)
        return None if commit is None else self._keep(commit, is_reachable=kept.is_reachable)

    # -- from the server

    def _fetch_named(self, ref: str) -> tuple[RefKind, str]:
        try:
            fetched = self._objects.fetch_ref(ref)
        except FetchError as error:
            if error.code != "RefNotFoundError":
                raise
            raise self._not_found(ref) from error
        if ref in _DEFAULT:
            return "default", fetched.name
        if fetched.kind is None:  # git takes `pull/1/head` for `refs/pull/1/head`
            raise self._not_found(ref)
        return fetched.kind, fetched.name

    def _bring(self, commit: str, *, allow_impostor: bool) -> bool:
        """Fetch a commit unless it is here; return whether a branch or tag leads to it."""
        leading = self._objects.refs().leading_to(commit)
        if leading and self._objects.commit(commit) is None:
            self._objects.fetch_ref(leading)
        is_reachable = bool(leading)
        if not is_reachable:
            self._history.fetch_history(commits_only=True)
            is_reachable = self._history.is_reachable(commit)
        if not is_reachable and not allow_impostor:
            raise FetchError.impostor_commit(self._remote.shown, commit)
        if self._objects.commit(commit) is None and not self._objects.fetch_commit(commit):
            # This server gives out only the heads of branches and tags: so fetch all that they lead to.
            self._objects.fetch_history(commits_only=False)
        return is_reachable

    def _present(self, name: str) -> Commit:
        commit = self._objects.commit(name)
        if commit is None:
            raise FetchError(
                self._remote.shown,
                f"it did not give out a commit {name}",
                hints=["name a branch, a tag of a commit, or a commit that one of them leads to"],
            )
        return commit

    def _not_found(self, ref: str) -> FetchError:
        hints = [_WHOLE_HINT] if is_like_commit(ref) else []
        close = () if ref in _DEFAULT else self._objects.refs().close_to(ref)
        return FetchError.ref_not_found(self._remote.shown, "" if ref in _DEFAULT else ref, close=close, hints=hints)

    # -- into the cache

    def _keep(self, commit: Commit, *, is_reachable: bool) -> TreeEntry:
        kept = self._kept.get(commit.name)
        if kept is not None and (entry := self._kept.tree(kept)) is not None:
            if is_reachable and not kept.is_reachable:  # an impostor that was merged meanwhile
                self._kept.note(replace(kept, is_reachable=True))
            return entry
        try:
            listing = self._objects.listing(commit.name)
            found = KeptCommit(commit.name, "", commit.committed_at, is_reachable, tuple(listing.submodules))
            return self._kept.add(found, lambda writer: self._write(listing.lines, writer))
        except GitOutputError as error:
            named = f"commit {commit.name[:12]}"
            problem = f"the files of {named} cannot be read: {error}"
            code: FetchCode = "DamagedRepositoryError"
            if error.is_too_much:
                problem = f"{named} has too many files: {error}"
                code = "TooLargeError"
            raise FetchError(self._remote.shown, problem, code=code) from error

    def _write(self, lines: Sequence[TreeLine], writer: TreeWriter) -> None:
        def take(index: int, content: bytes) -> None:
            line = lines[index]
            if line.kind == "link":
                writer.add_link(line.path, content.decode("utf-8", errors="surrogateescape"))
            else:
                writer.add_file(line.path, line.kind == "executable", (content,))
            if index % _FILES_A_STEP == 0:
                self._step("unpacking", index, len(lines), "files")

        try:
            self._objects.read(lines, take)
        except BlobError as error:
            if error.is_missing and not self._objects.is_partial:
                raise
            # The server left out a missing blob, as the fetch requested.
            problem = f"it has more than {self._limits.blob_bytes} bytes" if error.is_missing else str(error)
            raise UnsafeTreeError(lines[error.index].path, problem) from error

    # -- progress

    def _listen(self, line: str) -> None:
        match = _PROGRESS.match(line)
        if match is not None:
            self._step(_PHASES[match[1]], int(match[2]), int(match[3]), "objects")

    def _step(self, phase: Phase, done: int, total: int, unit: str) -> None:
        self._progress.step(ProgressStep(self._remote.shown, phase, done, total, unit))
