"""What a module needs beyond its grants: the further grants, what they are, and what they are for."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from paddock.plan.permissions import Permissions, Preset, SecretGrant, united
from paddock.policy.owner import Owner


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """The facts besides a module's entry: where it would work, and what the operator has.

    `working_dir` is absolute and without links; `secrets` are the names of the available secrets.
    """

    working_dir: Path
    owner: Owner
    environ: Mapping[str, str]
    secrets: Container[str]


@dataclass(frozen=True, slots=True)
class Needs:
    """Grants that fit (`permissions`), the same in words (`lines`), and what the module still lacks (`lacks`).

    The module may lack something that no grant provides.
    """

    permissions: Permissions = field(default_factory=Permissions)
    lines: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()

    @classmethod
    def of_preset(cls, preset: Preset, line: str, lacks: str) -> Self:
        """Return the needs that a preset satisfies."""
        return cls(Permissions(preset=preset), (line,), (lacks,))

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
