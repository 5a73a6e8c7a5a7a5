"""What a server says that its branches and tags are: the output of `git ls-remote`, read strictly.

Only branches and tags are asked for, and the default branch. A line of any other form ends the reading: whoever sends
one is no server, or not one of ours to guess about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, Self

from paddock_sources.git.git_pin import RefKind

_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(refs/(?:heads|tags)/[^\x00-\x20\x7f]+)")
_HEAD = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\tHEAD")
_PEELED = "^{}"


class RemoteRefsError(ValueError):
    """Raised for output that is not what `git ls-remote` prints."""


@dataclass(frozen=True, slots=True)
class RemoteRefs:
    """Branches and tags by name, and the commits they are at."""

    branches: Mapping[str, str]
    tags: Mapping[str, str]

    @classmethod
    def parse(cls, output: str, most: int) -> Self:
        """Return the refs that a server listed.

        Raises:
            RemoteRefsError: a line is malformed, or there are more than `most`.
        """
        branches: dict[str, str] = {}
        tags: dict[str, str] = {}
        lines = output.split("\n", most + 1)
        if len(lines) > most + 1:
            raise RemoteRefsError(f"there are more than {most} refs")
        for line in lines:
            if not line:
                continue
            matched = _LINE.fullmatch(line)
            if matched is None:
                raise RemoteRefsError(f"a line is no ref: {line[:100]!a}")
            commit, ref = matched.groups()
            if ref.startswith("refs/heads/"):
                branches[ref.removeprefix("refs/heads/")] = commit
            else:  # a line that ends in `^{}` comes after its own, and says what the tag is of
                tags[ref.removeprefix("refs/tags/").removesuffix(_PEELED)] = commit
        return cls(branches, tags)

    def find(self, ref: str) -> tuple[RefKind, str] | None:
        """Return what a name is and the commit it is at; a tag comes before a branch, as git has it.

        A name of both is a release: a branch that appears later must not change what a plan means by it.
        `refs/heads/…` and `refs/tags/…` say which.
        """
        kinds: tuple[tuple[RefKind, Mapping[str, str], str], ...] = (
            ("tag", self.tags, "refs/tags/"),
            ("branch", self.branches, "refs/heads/"),
        )
        for kind, named, prefix in kinds:
            commit = named.get(ref.removeprefix(prefix)) if ref.startswith(prefix) else named.get(ref)
            if commit is not None:
                return kind, commit
        return None

    def leading_to(self, commit: str) -> str:
        """Return the whole name of a tag or branch that is at a commit, or nothing."""
        for prefix, named in (("refs/tags/", self.tags), ("refs/heads/", self.branches)):
            for name, at in named.items():
                if at == commit:
                    return prefix + name
        return ""

    def close_to(self, ref: str) -> tuple[str, ...]:
        """Return names that somebody may have meant."""
        plain = ref.removeprefix("refs/heads/").removeprefix("refs/tags/")
        return tuple(get_close_matches(plain, list({**self.tags, **self.branches})[:5000], n=2))


def asked_for(ref: str) -> tuple[str, ...]:
    """Return the patterns by which `git ls-remote` tells of what a name may be, and of nothing else."""
    if ref.startswith("refs/"):
        return ref, ref + _PEELED
    return f"refs/heads/{ref}", f"refs/tags/{ref}", f"refs/tags/{ref}{_PEELED}"


def default_commit(output: str) -> str | None:
    """Return the commit that the default branch is at, given what `git ls-remote` says of `HEAD`."""
    matched = _HEAD.fullmatch(output.partition("\n")[0])
    return matched[1] if matched else None


def kind_of_fetched(described: str) -> Literal["branch", "tag"] | None:
    """Return what git says it fetched, in a line of `FETCH_HEAD`; None for what is neither branch nor tag."""
    if described.startswith("branch '"):
        return "branch"
    return "tag" if described.startswith("tag '") else None
