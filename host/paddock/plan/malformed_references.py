"""What is wrong with a reference to a secret whoever is granted it: known as soon as a plan is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paddock.errors import PlanProblem

from .permissions import Permissions, SecretGrant
from .secret_references import reference_problems


class _Everything(Permissions):
    """Grants of every secret."""

    def secret(self, name: str) -> SecretGrant:
        return SecretGrant(name=name)


class _AllSet(Mapping[str, str]):
    """An environment in which every variable is set."""

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> str:
        return ""

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_EVERYTHING: Final = _Everything()
_ALL_SET: Final = _AllSet()


def malformed_references(config: Any, path: str) -> Iterator[PlanProblem]:
    """Yield a problem for every reference in `config`, at `path`, that no grant could make good."""
    yield from reference_problems(config, path, _EVERYTHING, _ALL_SET)
