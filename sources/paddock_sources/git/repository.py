"""A bare repository with all that was fetched from one remote, shared by all who need it.

The caller holds the remote's lock, and has laid the repository out. Commands are put together by GitPython, and run in
a session of the `CommandRunner`, never by a shell. To import GitPython takes a while: import this where git is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from paddock_sources.commands.command_runner import CommandError, CommandResult, CommandSession
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
from paddock_sources.resolution import RefKind


@contextmanager
def _nothing_run() -> Iterator[None]:
    """Hide git from GitPython during its import, which would run a git here, or another program of that name."""
    # A device is never executed; any other name could be a program's on some machine.
    meanwhile = {"GIT_PYTHON_GIT_EXECUTABLE": os.devnull, "GIT_PYTHON_REFRESH": "quiet"}
    before = {name: os.environ.get(name) for name in meanwhile}
    os.environ.update(meanwhile)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


with _nothing_run():
    from git import Git

_FETCHED = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(?:not-for-merge)?\t([^\n]*)\n?")
_MAX_STDOUT_BYTES = 32 << 20  # of collected output; the receiver bounds output that is passed on
_UNBOUNDED = 1 << 40
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


class _Git(Git):
    """GitPython's git, which has each of its commands run by `run`."""

    def __init__(self, run: Callable[..., CommandResult]) -> None:
        super().__init__(None)
        self._run = run

    def execute(self, command: Sequence[str], **options: Any) -> CommandResult:  # type: ignore[override]
        return self._run(command[1:], **options)


class Repository:
    """The repository in `folder`, fetched from `remote` by a git in `session`; `listener` gets git's progress lines.

    Every method raises a `FetchError` when git fails, is ended or prints unexpected output.
    """

    def __init__(
        self,
        remote: Remote,
        session: CommandSession,
        folder: Path,
        limits: GitLimits,
        listener: Callable[[str], None],
        *,
        was_given: bool = False,
    ) -> None:
        self._remote = remote
        self._session = session
        self._folder = folder
        self._limits = limits
        self._listener = listener
        self._was_given = was_given
        self._git = _Git(self._execute)

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
        self._checked(self._fetch(f"+{ref or 'HEAD'}:refs/paddock/{key}"), ref)
        return self._last_fetched()

    def fetch_commit(self, commit: str) -> bool:
        """Fetch one commit without its history; return whether the server gives it out by its name."""
        fetched = self._fetch(f"+{commit}:refs/paddock/{commit}")
        if fetched.code != 0 and git_failure.is_not_advertised(fetched):
            return False
        self._checked(fetched)
        return True

    def fetch_history(self, *, commits_only: bool) -> None:
        """Fetch all that branches and tags lead to; only the commits, if requested and if the server can."""
        everything = [f"+refs/{kind}/*:refs/{kind}/*" for kind in ("heads", "tags")]
        depth = () if commits_only else (f"--depth={_ALL_OF_HISTORY}",)
        left_out = "tree:0" if commits_only else ""
        self._checked(self._fetch(*everything, left_out=left_out, options=("--prune", *depth)))

    # -- the local side

    def commit(self, name: str) -> Commit | None:
        """Return the commit that a local object is, or is a tag of; None where it is absent or of another kind."""
        lines = [f"{name}^{{commit}}\n".encode("ascii")]
        printed = self._printed("reading a commit", "cat-file", "--batch", istream=lines)
        header = _COMMIT.match(printed)
        if header is None:
            return None
        found, content = header[1].decode("ascii"), printed[header.end() : -1]
        if len(content) > _MAX_COMMIT_BYTES or object_name("commit", content, len(found)) != found:
            raise self._damaged(f"commit {found} is not what its name says")
        matched = _COMMITTER.search(content.partition(b"\n\n")[0])
        try:
            return Commit(found, datetime.fromtimestamp(int(matched[1]), UTC) if matched else None)
        except (OverflowError, ValueError, OSError):
            return Commit(found, None)

    def is_reachable(self, commit: str) -> bool:
        """Return whether a branch or tag of the local history leads to a commit."""
        if self.commit(commit) is None:
            return False
        looked_for = (f"--contains={commit}", "--count=1", "refs/heads", "refs/tags")
        return bool(self._printed("looking for a commit in the history", "for-each-ref", *looked_for).strip())

    def listing(self, commit: str) -> TreeListing:
        """Return the files of a commit.

        Raises:
            GitOutputError: there are more than there may be, or of a kind that there may not be.
        """
        listing = TreeListing(self._limits.files)
        listed = ("ls-tree", "-r", "-z", "--full-tree", commit)
        self._printed("listing the files", *listed, output_stream=listing.write)
        listing.finish()
        return listing

    def read(self, lines: Sequence[TreeLine], take: Callable[[int, bytes], None]) -> None:
        """Pass on the content of each file, with its index.

        Raises:
            GitOutputError: one is missing, too large or does not match its name.
        """
        blobs = [line.blob for line in lines]
        reader = BlobReader(blobs, self._limits.blob_bytes, take)
        read = ("cat-file", "--batch", "--buffer")
        self._printed("reading the files", *read, istream=blob_requests(blobs), output_stream=reader.write)
        reader.finish()

    @property
    def is_partial(self) -> bool:
        """Whether the server left objects out, as the fetch requested."""
        return any((self._folder / "objects" / "pack").glob("*.promisor"))

    # -- how

    def _ask(self, *arguments: str) -> str:
        asking = ("asking for branches and tags", "ls-remote", *arguments)
        printed = self._printed(*asking, kill_after_timeout=self._limits.ask_seconds)
        return printed.removesuffix(b"\n").decode("utf-8", errors="surrogateescape")

    def _fetch(self, *refspecs: str, left_out: str = "", options: Sequence[str] = ("--depth=1",)) -> CommandResult:
        left_out = left_out or f"blob:limit={self._limits.blob_bytes + 1}"
        # Set for this command alone. Otherwise git would note it in the repository, which a sandbox may not allow, and
        # would then fetch the missing objects during a read.
        remote = (f"url={self._remote.url}", "promisor=true", f"partialclonefilter={left_out}")
        self._git(c=[f"remote.{_NAME}.{setting}" for setting in remote])
        return self._run(
            "fetching",
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
        path = self._folder / "FETCH_HEAD"
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

    def _printed(self, doing: str, command: str, *arguments: str, **options: Any) -> bytes:
        return self._checked(self._run(doing, command, *arguments, **options)).stdout

    def _checked(self, result: CommandResult, ref: str = "") -> CommandResult:
        if result.code != 0:
            raise git_failure.of_finished(self._remote, result, ref=ref, was_given=self._was_given)
        return result

    def _run(self, doing: str, command: str, *arguments: str, **options: Any) -> CommandResult:
        try:
            return cast(CommandResult, self._git._call_process(command, *arguments, **options))
        except CommandError as error:
            raise git_failure.of_command(self._remote, error, doing) from error

    def _execute(
        self,
        arguments: Sequence[str],
        istream: Iterable[bytes] = (),
        output_stream: Callable[[memoryview], None] | None = None,
        kill_after_timeout: float | None = None,
    ) -> CommandResult:
        """Run `git` with these arguments, and pass on or return what it prints; see `git.Git.execute`."""
        return self._session.run(
            ["git", f"--git-dir={self._folder}", *map(str, arguments)],
            stdin=istream,
            on_stdout=output_stream,
            on_stderr=self._listener,
            timeout=kill_after_timeout or self._limits.read_seconds,
            max_stdout_bytes=_MAX_STDOUT_BYTES if output_stream is None else _UNBOUNDED,
        )

    def _damaged(self, problem: str) -> FetchError:
        return FetchError(self._remote.shown, problem, code="DamagedRepositoryError")
