"""What a plan may say and this version does not do: refused before anything starts, since less than that was written.

Read and checked like everything else, so that one plan fits several versions.
"""

from __future__ import annotations

from collections.abc import Iterator

from paddock.errors import PlanProblem, UnsupportedError
from paddock.plan.models import ModuleEntry
from paddock.plan.problems import path_text


def require_supported(entry: ModuleEntry) -> None:
    """Refuse an entry that asks for what is not there.

    Raises:
        UnsupportedError: with the place of each, and what to write instead.
    """
    problems = tuple(_unsupported(entry))
    if problems:
        raise UnsupportedError(problems)


def _unsupported(entry: ModuleEntry) -> Iterator[PlanProblem]:
    if entry.state == "keep":
        yield PlanProblem(
            path_text(entry.path, "state"),
            "this version keeps nothing: a module's private folder is removed at its end",
            "leave it out, and grant `write` to a folder for what is to stay",
        )
