"""What is wrong with a reference to a secret whoever is granted it: known as soon as a plan is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paddock.errors import PlanProblem
from paddock.plan.permissions import Permissions
from paddock.plan.secret_references import reference_problems, references


def malformed_references(config: Any, path: str) -> Iterator[PlanProblem]:
    """Yield a problem for every reference in `config`, at `path`, that no grant could make good."""
    for one in references(config, path):
        if one.has_default:
            yield from reference_problems(one.written, one.place, Permissions(), ())
