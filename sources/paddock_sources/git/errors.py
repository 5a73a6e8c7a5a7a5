"""Errors between a git address and the files of a commit.

Each error names the repository, the obstacle and a remedy. Output of a server or of git is shown as the lines under it,
never acted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, Self

from paddock_sources.errors import NoFetching, SourceError

FetchCode = Literal[
    "AuthRequiredError",
    "CertificateError",
    "DamagedRepositoryError",
    "FetchError",
    "GitMissingError",
    "GitTimeoutError",
    "HostRefusedError",
    "ImpostorCommitError",
    "OfflineError",
    "RefNotFoundError",
    "RepositoryNotFoundError",
    "TooLargeError",
    "UnreachableError",
]

NO_REPOSITORY: Final = "there is no such repository, or it is private"

_HINTS: Final[Mapping[FetchCode, tuple[str, ...]]] = {
    "GitMissingError": ("install git (2.32 or later)",),
    "GitTimeoutError": ("try again; what was fetched before is still there",),
    "HostRefusedError": ("only the host of the address is reached: name the repository where it really is",),
    "RepositoryNotFoundError": (
        "check how the address is spelled",
        "for a private one, see `git help credentials`",
    ),
    "TooLargeError": ("a module's repository holds code: keep models and data elsewhere",),
    "UnreachableError": ("check the address and the connection; if it was fetched before, `--offline` uses that",),
}


class FetchError(SourceError):
    """Raised when a repository could not be fetched from; `code` names the kind of failure, which may have hints."""

    code: FetchCode

    def __init__(
        self,
        repository: str,
        problem: str,
        *,
        code: FetchCode = "FetchError",
        detail: Iterable[str] = (),
        hints: Iterable[str] = (),
    ) -> None:
        self.repository = repository
        self.problem = problem
        super().__init__(
            f"cannot fetch `{repository}`: {problem}", code=code, detail=detail, hints=hints or _HINTS.get(code, ())
        )

    @classmethod
    def offline(cls, repository: str, wanted: str, no_fetching: NoFetching, *, is_locked: bool) -> Self:
        """Something, locked or not, would have to be fetched and nothing may be."""
        problem = f"{wanted} is not in the cache, and {no_fetching.reason}"
        return cls(repository, problem, code="OfflineError", hints=[no_fetching.hint(is_locked)])

    @classmethod
    def auth_required(
        cls,
        repository: str,
        host: str,
        *,
        was_given: bool = False,
        by_ssh: bool = False,
    ) -> Self:
        """A server wants credentials; `was_given` means that it refused the ones it got."""
        if by_ssh:
            problem = f"`{host}` does not accept the keys that ssh offers without asking"
            hints = [f"try `ssh -T {host}`", "load the key into an agent: `ssh-add`"]
        elif was_given:
            problem = f"`{host}` does not accept the credentials that git's helpers have for it"
            hints = ["they may have expired, or be of somebody who may not read it", _helper_hint(host)]
        else:
            problem = f"`{host}` wants credentials, and git's helpers have none for it"
            hints = [_helper_hint(host), "Paddock asks for no password"]
        return cls(repository, problem, code="AuthRequiredError", hints=hints)

    @classmethod
    def ref_not_found(
        cls, repository: str, ref: str, *, close: tuple[str, ...] = (), hints: Iterable[str] = ()
    ) -> Self:
        """A repository has no branch or tag of a name; `close` are names that it has."""
        meant = [f"did you mean {' or '.join(f'`{name}`' for name in close)}?"] if close else []
        problem = f"it has no branch or tag `{ref}`" if ref else "it has no commit, or no default branch"
        listed = [f"`git ls-remote {repository}` lists them"]
        return cls(repository, problem, code="RefNotFoundError", hints=[*meant, *hints, *listed])

    @classmethod
    def impostor_commit(cls, repository: str, commit: str) -> Self:
        """No branch or tag of a repository leads to a commit."""
        return cls(
            repository,
            f"no branch or tag of it leads to commit {commit}",
            code="ImpostorCommitError",
            detail=[
                "the commit may come from somebody's fork: servers show those of pull requests as the repository's own",
                "or its branch or tag was deleted, or moved by a force push",
            ],
            hints=[
                "name a branch or a tag, or a commit that one leads to; `paddock update` moves a locked one",
                "if this very commit is meant: `--allow-impostor`",
            ],
        )


def _helper_hint(host: str) -> str:
    by_hand = "`gh auth login`, or " if host == "github.com" else ""
    return f"store them for `{host}`: {by_hand}`git credential approve` (`git help credentials`)"
