"""What can go wrong between a git address and the files of a commit.

Each error names the repository, what stood in the way and what may be done. What a server or git printed is shown as
the lines under it, never acted on.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock_sources.errors import SourceError


class FetchError(SourceError):
    """Raised when a repository could not be fetched from; the root of what goes wrong with one."""

    def __init__(self, repository: str, problem: str, *, detail: Iterable[str] = (), hints: Iterable[str] = ()) -> None:
        self.repository = repository
        self.problem = problem
        super().__init__(f"cannot fetch `{repository}`: {problem}", detail=detail, hints=hints)


class GitMissingError(FetchError):
    """Raised when there is no git to run."""

    def __init__(self, repository: str) -> None:
        super().__init__(repository, "there is no `git` on this machine", hints=["install git (2.32 or later)"])


class OfflineError(FetchError):
    """Raised when something would have to be fetched and nothing may be."""

    def __init__(self, repository: str, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(
            repository,
            f"{wanted} is not in the cache, and nothing is fetched offline",
            hints=["fetch it while there is a network: `paddock sync`"],
        )


class AuthRequiredError(FetchError):
    """Raised when a server wants to know who asks; `was_given` says whether it refused what it was told."""

    def __init__(self, repository: str, host: str, *, was_given: bool = False, by_ssh: bool = False) -> None:
        self.host = host
        self.was_given = was_given
        if by_ssh:
            problem = f"`{host}` does not accept the keys that ssh offers without asking"
            hints = [f"try `ssh -T {host}`", "load the key into an agent: `ssh-add`"]
        elif was_given:
            problem = f"`{host}` does not accept the credentials that git's helpers have for it"
            hints = ["they may have expired, or be of somebody who may not read it", _helper_hint(host)]
        else:
            problem = f"`{host}` wants credentials, and git's helpers have none for it"
            hints = [_helper_hint(host), "nobody is asked for a password here"]
        super().__init__(repository, problem, hints=hints)


class RepositoryNotFoundError(FetchError):
    """Raised when a server has no such repository, or none that it shows to whoever asks."""

    def __init__(self, repository: str, *, detail: Iterable[str] = ()) -> None:
        super().__init__(
            repository,
            "there is no such repository, or it is private",
            detail=detail,
            hints=["check how the address is spelled", "for a private one, see `git help credentials`"],
        )


class RefNotFoundError(FetchError):
    """Raised when a repository has no branch or tag of a name; `close` are names that it has."""

    def __init__(self, repository: str, ref: str, *, close: Iterable[str] = (), hints: Iterable[str] = ()) -> None:
        self.ref = ref
        self.close = tuple(close)
        meant = [f"did you mean {' or '.join(f'`{name}`' for name in self.close)}?"] if self.close else []
        problem = f"it has no branch or tag `{ref}`" if ref else "it has no commit, or no default branch"
        listed = [f"`git ls-remote {repository}` lists them"]
        super().__init__(repository, problem, hints=[*meant, *hints, *listed])


class ImpostorCommitError(FetchError):
    """Raised for a commit that no branch or tag of its repository leads to."""

    def __init__(self, repository: str, commit: str) -> None:
        self.commit = commit
        super().__init__(
            repository,
            f"no branch or tag of it leads to commit {commit}",
            detail=[
                "the commit may come from somebody's fork: servers show those of pull requests as the repository's own",
                "or its branch or tag was deleted, or moved by a force push",
            ],
            hints=[
                "name a branch or a tag, or a commit that one leads to; `paddock update` moves a locked one",
                "if this very commit is meant: `--allow-impostor`",
            ],
        )


class GitTimeoutError(FetchError):
    """Raised when git was ended because it took too long."""

    def __init__(self, repository: str, doing: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(
            repository,
            f"{doing} took more than {seconds:g} s",
            hints=["try again; what was fetched before is still there"],
        )


class UnreachableError(FetchError):
    """Raised when a host does not answer, or stops answering midway."""

    def __init__(self, repository: str, problem: str, *, detail: Iterable[str] = ()) -> None:
        super().__init__(
            repository,
            problem,
            detail=detail,
            hints=["try again; what was fetched before is still there, and used with `--offline`"],
        )


class CertificateError(FetchError):
    """Raised when a host cannot prove that it is the one that was named."""

    def __init__(self, repository: str, host: str, *, detail: Iterable[str] = (), by_ssh: bool = False) -> None:
        self.host = host
        hints = (
            [f"compare the host's key with what its operator publishes, then connect once by hand: `ssh -T {host}`"]
            if by_ssh
            else ["for an authority of your own, name its file: `GIT_SSL_CAINFO=/path/to/ca.pem`"]
        )
        super().__init__(repository, f"`{host}` cannot prove that it is `{host}`", detail=detail, hints=hints)


class HostRefusedError(FetchError):
    """Raised when git tried to connect to hosts that it may not reach: only the repository's own is."""

    def __init__(self, repository: str, hosts: Iterable[str]) -> None:
        self.hosts = tuple(hosts)
        named = ", ".join(f"`{host}`" for host in self.hosts)
        super().__init__(
            repository,
            f"it may not be fetched from {named}",
            hints=["only the host of the address is reached: name the repository where it really is"],
        )


class TooLargeError(FetchError):
    """Raised when a repository is larger than one may be."""

    def __init__(self, repository: str, problem: str) -> None:
        super().__init__(
            repository, problem, hints=["a module's repository holds code: keep models and data elsewhere"]
        )


class DamagedRepositoryError(FetchError):
    """Raised when what a server sent, or what is kept of it, is not what git's own names say it is."""


def _helper_hint(host: str) -> str:
    by_hand = "`gh auth login`, or " if host == "github.com" else ""
    return f"store them for `{host}`: {by_hand}`git credential approve` (`git help credentials`)"
