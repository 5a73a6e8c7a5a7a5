"""A module source that is a git repository: resolve its ref, and get the files of a commit.

Files in the cache are returned without git being started or imported. For anything else one session is opened, which
can reach only the repository's own host. With ssh, git runs unconfined, with the user's keys. A fetch that fails, or is
ended at any moment, leaves the contents of the cache as they were.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from paddock_sources.commands.command_runner import CommandAccess, CommandError, CommandRunner
from paddock_sources.errors import OFFLINE, NoFetching, NotFetchedError
from paddock_sources.git.credentials import Credentials
from paddock_sources.git.errors import NO_REPOSITORY, FetchError
from paddock_sources.git.git_config import GitLimits, config_text, git_environ, trusted_certificates
from paddock_sources.git.git_failure import of_command
from paddock_sources.git.git_folder import (
    config_in,
    drop_aside,
    has_objects,
    history_in,
    lay_out_all,
    objects_in,
    put_back,
    set_aside,
)
from paddock_sources.git.kept_commits import KeptCommit, KeptCommits
from paddock_sources.git.remote import Remote
from paddock_sources.progress import Progress, ProgressStep, SilentProgress
from paddock_sources.ref_name import is_commit
from paddock_sources.resolution import PinnedSource
from paddock_sources.uri import GitUri, SourceUri

if TYPE_CHECKING:
    from paddock_sources.cache import SourceCache, TreeEntry
    from paddock_sources.git.git_work import GitWork

_Result = TypeVar("_Result")


class GitSource:
    """The repository of `uri`, kept in `cache`.

    Args:
        runner: runs git sandboxed, with access to the given hosts. Offline it gets no hosts.
        direct: runs git when it needs the user's keys, and git's credential helpers.
        environ: the operator's environment; only the trusted certificates and the use of ssh are taken from it.
        offline: no server is asked; git runs only for files whose objects are here.
        no_fetching: why, and what to do about it.
        credentials: the servers' credentials; shared by all sources, so each server's helpers are asked once.

    Raises:
        SourceUriError: such an address is not passed to git.
    """

    def __init__(
        self,
        uri: GitUri,
        cache: SourceCache,
        runner: CommandRunner,
        *,
        direct: CommandRunner,
        progress: Progress | None = None,
        environ: Mapping[str, str] | None = None,
        offline: bool = False,
        no_fetching: NoFetching = OFFLINE,
        limits: GitLimits | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.uri = uri
        self.remote = Remote.of(uri)
        self._shut_in = runner
        self._runner = direct if self.remote.is_outside else runner
        self._progress = progress or SilentProgress()
        self._environ = os.environ if environ is None else environ
        self._is_offline = offline
        self._no_fetching = no_fetching
        self._limits = limits or GitLimits()
        self._credentials = credentials or Credentials(direct, self._environ)
        self._kept = KeptCommits(cache, self.remote)

    def pin(self, *, allow_impostor: bool = False) -> PinnedSource:
        """Return what the source's ref is now; its files are then in the cache.

        A commit that was found reachable before is not looked up again.

        Raises:
            FetchError: the ref does not exist, its repository does not lead to it, or it cannot be fetched.
            UnsafeTreeError: it has files that are not safe to write.
            CacheError: it cannot be kept.
        """
        ref = self._checked_ref()
        kept = self._known(ref, allow_impostor=allow_impostor)
        if kept is not None and self._files(kept) is not None:
            return PinnedSource(ref, "commit", ref, kept.committed_at, self.remote.is_outside, kept.is_reachable)
        return self._online(self._wanted(ref), lambda work: work.pin(ref, allow_impostor=allow_impostor))

    def look(self) -> PinnedSource:
        """Return what the source's branch or tag is now, without fetching; a whole commit stands for itself.

        Raises:
            FetchError: no ref has that name, or no server can be asked.
        """
        ref = self._checked_ref()
        if is_commit(ref):
            return PinnedSource(ref, "commit", ref, is_outside=self.remote.is_outside)
        return self._online(self._wanted(ref), lambda work: work.look(ref))

    def tags(self) -> Mapping[str, str]:
        """Return the tags of the repository, and the commits that they are at.

        Raises:
            FetchError: no server can be asked.
        """
        return self._online("its tags", lambda work: work.tags())

    def fetch(self, commit: str, *, allow_impostor: bool = False) -> TreeEntry:
        """Return the files of a whole commit, from the cache or, failing that, from the repository.

        For a commit that no branch or tag led to before, the repository is asked again.

        Raises:
            FetchError: its repository does not lead to it, or it cannot be fetched.
            UnsafeTreeError: it has files that are not safe to write.
            CacheError: it cannot be kept.
        """
        kept = self._known(commit, allow_impostor=allow_impostor)
        found = None if kept is None else self._files(kept)
        if found is not None:
            return found
        return self._online(
            f"commit {commit}", lambda work: work.fetch(commit, allow_impostor=allow_impostor), is_locked=True
        )

    # -- without the repository

    def _known(self, commit: str, *, allow_impostor: bool) -> KeptCommit | None:
        """Return the record of a commit, if it is enough to use the commit without asking its repository.

        Raises:
            FetchError: it is not enough, and no server can be asked.
        """
        kept = self._kept.get(commit)
        if kept is None or kept.is_reachable or allow_impostor:
            return kept
        if self._is_offline:
            raise FetchError.impostor_commit(self.remote.shown, commit)
        return None

    def _files(self, kept: KeptCommit) -> TreeEntry | None:
        """Return the files of a commit from the cache, or from the objects that were fetched before."""
        return self._kept.tree(kept) or self._restored(kept)

    def _restored(self, kept: KeptCommit) -> TreeEntry | None:
        """Return files that were taken away, as `paddock cache prune` does, from objects that were not."""
        with self._kept.locked(self._limits.lock_seconds, self._progress) as folder:
            if not has_objects(folder):
                return None
            access = CommandAccess(
                "git",
                reads=(config_in(folder), objects_in(folder)),
                environ=git_environ(self.remote, config_in(folder), {}),
            )
            try:
                return self._in_session(lambda work: work.restore(kept), folder, self._shut_in, access)
            except NotFetchedError:
                return None
            except FetchError as error:
                if self._is_offline and error.code != "DamagedRepositoryError":
                    raise
                return None  # a machine that cannot sandbox programs may still reach the repository

    # -- with git

    def _checked_ref(self) -> str:
        ref = self.uri.ref
        if ref.startswith("refs/") and not ref.startswith(("refs/heads/", "refs/tags/")):
            hints = ["only branches and tags are the repository's own: name one, or a commit that one leads to"]
            raise FetchError.ref_not_found(self.remote.shown, ref, hints=hints)
        if is_commit(ref.lower()) and not is_commit(ref):
            raise FetchError.ref_not_found(self.remote.shown, ref, hints=["a commit is written in small letters"])
        return ref

    @staticmethod
    def _wanted(ref: str) -> str:
        if is_commit(ref):
            return f"commit {ref}"
        return f"the commit of `{ref}`" if ref else "the commit of its default branch"

    def _online(self, wanted: str, do: Callable[[GitWork], _Result], *, is_locked: bool = False) -> _Result:
        if self._is_offline:
            raise FetchError.offline(self.remote.shown, wanted, self._no_fetching, is_locked=is_locked)
        if self.uri.place is not None:
            self.uri.place.check()
        if self.remote.folder is not None and not self.remote.folder.is_dir():
            raise FetchError(
                self.remote.shown, NO_REPOSITORY, code="RepositoryNotFoundError", detail=["there is no such folder"]
            )
        self._progress.step(ProgressStep(self.remote.shown, "looking up"))
        try:
            with self._kept.locked(self._limits.lock_seconds, self._progress) as folder:
                return self._mending(do, folder)
        finally:
            self._progress.finished(self.remote.shown)

    def _mending(self, do: Callable[[GitWork], _Result], folder: Path) -> _Result:
        """Start from an empty repository, once, when the kept one may be damaged."""
        is_new = not has_objects(folder)
        try:
            return self._authorized(do, folder)
        except FetchError as error:
            if is_new or error.code != "DamagedRepositoryError":
                raise
        set_aside(folder)
        try:
            done = self._authorized(do, folder)
        except BaseException:
            put_back(folder)  # the repository was not damaged, or that cannot be determined now
            raise
        drop_aside(folder)
        return done

    def _authorized(self, do: Callable[[GitWork], _Result], folder: Path) -> _Result:
        """Send credentials only if the server asks for them."""
        authorization = self._credentials.known(self.remote)
        try:
            access = self._reach(folder, authorization)
            return self._in_session(do, folder, self._runner, access, was_given=authorization is not None)
        except FetchError as error:
            if error.code != "AuthRequiredError":
                raise
            if authorization is not None or self.remote.scheme not in ("https", "http"):
                raise
            authorization = self._credentials.authorization(self.remote)
            if authorization is None:
                raise
        return self._in_session(do, folder, self._runner, self._reach(folder, authorization), was_given=True)

    def _in_session(
        self,
        do: Callable[[GitWork], _Result],
        folder: Path,
        runner: CommandRunner,
        access: CommandAccess,
        *,
        was_given: bool = False,
    ) -> _Result:
        # The code that works with git, above all GitPython, is imported while its session is made: both take a while.
        name = f"{__package__}.git_work"
        if name not in sys.modules:
            threading.Thread(target=importlib.import_module, args=(name,), daemon=True).start()
        lay_out_all(folder, config_text(self.remote, self._limits))
        try:
            with runner.open(access) as session:
                if self.uri.place is not None and self.uri.place.path in access.reads:
                    # What git sees from here on: by its name alone another folder could come and go meanwhile.
                    self.uri.place.check(session.seen_as(self.uri.place.path))
                from paddock_sources.git.git_work import GitWork

                work = GitWork(
                    self.remote,
                    session,
                    folder,
                    self._kept,
                    limits=self._limits,
                    progress=self._progress,
                    was_given=was_given,
                )
                return do(work)
        except CommandError as error:
            raise of_command(self.remote, error, "preparing a place for git") from error

    def _reach(self, folder: Path, authorization: str | None) -> CommandAccess:
        reads = [config_in(folder)]
        if self.remote.folder is not None:
            reads.append(self.remote.folder)
        if self.remote.scheme == "https":
            certificates = (Path(path) for path in trusted_certificates(self._environ).values())
            reads.extend(path for path in certificates if path.exists())
        return CommandAccess(
            "git",
            reads=tuple(reads),
            writes=(objects_in(folder), history_in(folder)),
            hosts=self.remote.hosts,
            environ=git_environ(self.remote, config_in(folder), self._environ, authorization),
            written_bytes=self._limits.pack_bytes,
        )


RepositoryMaker = Callable[[GitUri, bool, SourceUri], GitSource]
"""Returns a repository that the user named, or, where that is not so, one that the code at a source names."""
