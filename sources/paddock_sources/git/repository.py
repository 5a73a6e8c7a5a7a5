"""A bare repository with all that was fetched from one remote, shared by all who need it.

The caller holds the remote's lock, and has laid the repository out.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from paddock_sources.commands.command_runner import CommandError
from paddock_sources.git import git_failure
from paddock_sources.git.errors import FetchError
from paddock_sources.git.git_config import GitLimits
from paddock_sources.git.git_output import (
    BlobReader,
    GitOutputError,
    RemoteRefs,
    TreeLine,
    TreeListing,
    blob_requests,
    default_commit,
    kind_of_fetched,
    object_name,
    ref_patterns,
)
from paddock_sources.git.remote import Remote
from paddock_sources.git.sandboxed_git import GitFailedError, SandboxedGit
from paddock_sources.resolution import RefKind

_FETCHED = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(?:not-for-merge)?\t([^\n]*)\n?")
_MAX_FETCHED_BYTES = 16 << 10
_MAX_COMMIT_BYTES = 1 << 20  # its message and, in some, the signatures of merged commits
_COMMIT = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) commit ([0-9]{1,10})\n")
_COMMITTER = re.compile(rb"^committer [^\n]*> ([0-9]{1,12}) [+-][0-9]{4}$", re.MULTILINE)
_NAME = "origin"
_ALL_OF_HISTORY = "2147483647"  # git's own number for a depth without end


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that is here; `committed_at` is the date in it."""

    name: str
    committed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched object: a commit or a tag's own object. `kind` is None for neither branch nor tag."""

    name: str
    kind: RefKind | None


class Repository:
    """The repository at `git.folder`, fetched from `remote`.

    Every method raises a `FetchError` when git fails, is ended or prints unexpected output.
    """

    def __init__(
        self,
        remote: Remote,
        git: SandboxedGit,
        limits: GitLimits,
        *,
        was_given: bool = False,
    ) -> None:
        self._remote = remote
        self._git = git
        self._limits = limits
        self._was_given = was_given

    # -- the server's side

    def refs(self, name: str = "") -> RemoteRefs:
        """Ask for all branches and tags, or for those of a name."""
        patterns = ref_patterns(name) if name else ()
        try:
            return RemoteRefs.parse(
                self._ask("--heads", "--tags", "--", self._remote.url, *patterns), self._limits.refs
            )
        except GitOutputError as error:
            raise self._damaged(f"its list of branches and tags is malformed: {error}") from error

    def default(self) -> str | None:
        """Ask for the commit that the default branch is at."""
        return default_commit(self._ask("--", self._remote.url, "HEAD"))

    def fetch_ref(self, ref: str) -> Fetched:
        """Fetch a branch, a tag or, for an empty name, the default branch, without its history."""
        # Each fetched commit has a name of ours: git offers what these lead to, and the server does not send it again.
        key = hashlib.sha256(ref.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._fetch(f"+{ref or 'HEAD'}:refs/paddock/{key}", ref=ref)
        return self._last_fetched()

    def fetch_commit(self, commit: str) -> bool:
        """Fetch one commit without its history; return whether the server gives it out by its name."""
        try:
            self._fetch(f"+{commit}:refs/paddock/{commit}")
        except FetchError as error:
            cause = error.__cause__
            if isinstance(cause, GitFailedError) and git_failure.is_not_advertised(cause.result):
                return False
            raise
        return True

    def fetch_history(self, *, commits_only: bool) -> None:
        """Fetch all that branches and tags lead to; only the commits, if requested and if the server can."""
        everything = [f"+refs/{kind}/*:refs/{kind}/*" for kind in ("heads", "tags")]
        if commits_only:
            self._fetch(*everything, left_out="tree:0", options=["--prune"])
        else:
            self._fetch(*everything, options=["--prune", f"--depth={_ALL_OF_HISTORY}"])

    # -- the local side

    def commit(self, name: str) -> Commit | None:
        """Return the commit that a local object is, or is a tag of; None where it is absent or of another kind."""
        lines = [f"{name}^{{commit}}\n".encode("ascii")]
        with self._failing("reading a commit"):
            printed = self._git.data("cat-file", "--batch", istream=lines)
        header = _COMMIT.match(printed)
        if header is None:
            return None
        found, content = header[1].decode("ascii"), printed[header.end() : -1]
        if len(content) > _MAX_COMMIT_BYTES or object_name("commit", content, len(found)) != found:
            raise self._damaged(f"commit {found} is not what its name says")
        return Commit(found, _committed_at(content))

    def is_reachable(self, commit: str) -> bool:
        """Return whether a branch or tag of the local history leads to a commit."""
        if self.commit(commit) is None:
            return False
        with self._failing("looking for a commit in the history"):
            printed = self._git.text("for-each-ref", f"--contains={commit}", "--count=1", "refs/heads", "refs/tags")
        return bool(printed.strip())

    def listing(self, commit: str) -> TreeListing:
        """Return the files of a commit.

        Raises:
            GitOutputError: there are more than there may be, or of a kind that there may not be.
        """
        listing = TreeListing(self._limits.files)
        with self._failing("listing the files"):
            self._git.text("ls-tree", "-r", "-z", "--full-tree", commit, output_stream=listing)
        listing.finish()
        return listing

    def read(self, lines: Sequence[TreeLine], take: Callable[[int, bytes], None]) -> None:
        """Pass on the content of each file, with its index.

        Raises:
            GitOutputError: one is missing, too large or does not match its name.
        """
        blobs = [line.blob for line in lines]
        reader = BlobReader(blobs, self._limits.blob_bytes, take)
        with self._failing("reading the files"):
            self._git.text("cat-file", "--batch", "--buffer", istream=blob_requests(blobs), output_stream=reader)
        reader.finish()

    @property
    def is_partial(self) -> bool:
        """Whether the server left objects out, as the fetch requested."""
        return any((self._git.folder / "objects" / "pack").glob("*.promisor"))

    # -- how

    def _ask(self, *arguments: str) -> str:
        with self._failing("asking for branches and tags"):
            return self._git.text("ls-remote", *arguments, kill_after_timeout=self._limits.ask_seconds)

    def _fetch(
        self, *refspecs: str, left_out: str = "", options: Sequence[str] = ("--depth=1",), ref: str = ""
    ) -> None:
        left_out = left_out or f"blob:limit={self._limits.blob_bytes + 1}"
        # Set for this command alone. Otherwise git would note it in the repository, which a sandbox may not allow, and
        # would then fetch the missing objects during a read.
        remote = (f"url={self._remote.url}", "promisor=true", f"partialclonefilter={left_out}")
        with self._failing("fetching", ref):
            self._git.configured(*(f"remote.{_NAME}.{setting}" for setting in remote)).text(
                "fetch",
                "--progress",
                "--no-tags",
                "--no-recurse-submodules",
                "--force",
                f"--filter={left_out}",
                *options,
                "--",
                _NAME,
                *refspecs,
                kill_after_timeout=self._limits.fetch_seconds,
            )

    def _last_fetched(self) -> Fetched:
        path = self._git.folder / "FETCH_HEAD"
        try:
            # A git that was taken over may have put a link there, to have us read something else.
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                written = file.read(_MAX_FETCHED_BYTES).decode("utf-8", errors="surrogateescape")
        except OSError as error:
            raise self._damaged("git did not say what it fetched") from error
        matched = _FETCHED.fullmatch(written)
        if matched is None:
            raise self._damaged("git did not say what it fetched")
        return Fetched(matched[1], kind_of_fetched(matched[2]))

    @contextmanager
    def _failing(self, doing: str, ref: str = "") -> Iterator[None]:
        try:
            yield
        except GitFailedError as error:
            raise git_failure.of_finished(self._remote, error.result, ref=ref, was_given=self._was_given) from error
        except CommandError as error:
            raise git_failure.of_command(self._remote, error, doing) from error

    def _damaged(self, problem: str) -> FetchError:
        return FetchError(self._remote.shown, problem, code="DamagedRepositoryError")


def _committed_at(content: bytes) -> datetime | None:
    matched = _COMMITTER.search(content.partition(b"\n\n")[0])
    try:
        return datetime.fromtimestamp(int(matched[1]), UTC) if matched else None
    except (OverflowError, ValueError, OSError):
        return None
