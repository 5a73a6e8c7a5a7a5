"""What a module needs beyond its grants: the further grants, what they are, and what they are for."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from paddock.plan.families import is_program_path
from paddock.plan.permissions import Permissions, SecretGrant, united
from paddock.plan.problems import NotAcceptedError
from paddock.policy.guarded_paths import runner_opened
from paddock.policy.located_program import locate
from paddock.policy.owner import Owner
from paddock.policy.programs import Program, is_of_system

KEEPS_HOME: Final = "keeps a folder of its own from session to session"


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """The facts besides a module's entry: where it would work, and what the operator has.

    `working_dir` is absolute and without links; `secrets` are the names of the available secrets. With `foresees_keys`,
    a key that its service needs counts as available before it is set. With `is_unread`, no person reads the proposal.
    """

    working_dir: Path
    owner: Owner
    environ: Mapping[str, str]
    secrets: Container[str]
    foresees_keys: bool = False
    is_unread: bool = False

    def has_key(self, name: str, *, is_needed: bool = True) -> bool:
        """Whether a key may be proposed: it is set, or it is needed and will be."""
        return name in self.secrets or (self.foresees_keys and is_needed)

    def has_path(self, path: str) -> bool:
        """Whether a path exists and, both as written and as resolved, lies in the working directory."""
        if not is_written_inside(path):
            return False
        real = os.path.realpath(self.working_dir / path)
        return os.path.exists(real) and os.path.commonpath((real, self.working_dir)) == str(self.working_dir)

    def may_write(self, path: str) -> bool:
        """Whether a path exists in the working directory, and none of the user's own programs runs what is there."""
        real = Path(os.path.realpath(self.working_dir / path))
        return self.has_path(path) and not runner_opened(real, self.working_dir, self.owner.home)

    def has_program(self, written: str) -> bool:
        """Whether a program exists: by its name, or by a path that stays in the working directory with all it needs."""
        try:
            if not is_program_path(written):
                return bool(Program.find(written).path)
            if not self.has_path(written):
                return False
            found = locate(written, self.working_dir, self.owner).judged
        except NotAcceptedError:
            return False
        return all(path.path.is_relative_to(self.working_dir) for path in found)

    def is_beside_system(self, name: str) -> bool:
        """Whether a program exists outside the system's folders, so that a grant of any program leaves it out."""
        return self.has_program(name) and not is_of_system(Program.find(name).path)

    def has_any(self, missing: Permissions) -> bool:
        """Whether anything that was missing when a plan was accepted is there now."""
        return (
            any(secret.name in self.secrets for secret in missing.secrets)
            or any(self.environ.get(name) for name in missing.env)
            or any(map(self.has_program, missing.run))
            or any(map(self.has_path, (*missing.read, *missing.write)))
        )


def is_written_inside(path: str) -> bool:
    """Whether a path is written as one in the working directory."""
    return not (os.path.isabs(path) or path.startswith("~") or ".." in path.split("/"))


@dataclass(frozen=True, slots=True)
class Needs:
    """Grants that fit (`permissions`), the same in words (`lines`), and what the module still lacks (`lacks`).

    The module may lack something that no grant provides. `missing` would be proposed too if it were there: a key that
    is not set, a program that is not installed. With `keeps`, its home is to be there again the next time.
    """

    permissions: Permissions = field(default_factory=Permissions)
    lines: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    missing: Permissions = field(default_factory=Permissions)
    keeps: bool = False

    @classmethod
    def of_home(cls, why: str) -> Self:
        """Return the need for a home that stays; `why` says what is there."""
        return cls(lines=(f"{KEEPS_HOME}: {why}",), lacks=(f"a home that stays: {why}",), keeps=True)

    @classmethod
    def of(cls, line: str, lacks: str, **families: Any) -> Self:
        """Return the needs that some grants satisfy."""
        return cls(Permissions.model_validate(families), (line,), (lacks,))

    def __add__(self, other: Needs) -> Needs:
        """Return both, each grant once."""
        return Needs(
            _union(self.permissions, other.permissions),
            tuple(dict.fromkeys((*self.lines, *other.lines))),
            tuple(dict.fromkeys((*self.lacks, *other.lacks))),
            _union(self.missing, other.missing),
            self.keeps or other.keeps,
        )


def _union(first: Permissions, second: Permissions) -> Permissions:
    nothing = Permissions()
    if nothing in (first, second):
        return first if second == nothing else second
    both = united((first, second))
    # The same secret twice is a contradiction; the narrower use stands.
    secrets: dict[str, SecretGrant] = {}
    for secret in both.secrets:
        known = secrets.setdefault(secret.name, secret)
        if known.inject is None:
            secrets[secret.name] = secret
    return both.model_copy(update={"secrets": tuple(secrets.values())})
