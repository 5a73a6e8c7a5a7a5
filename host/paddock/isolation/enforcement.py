"""The mechanism that enforces each limit at an isolation level on this machine, and a fix where none does.

One table serves plans, whose limits must hold, and people who want to know the mechanism. Defaults use the best
mechanism there is, which may be none; a limit that a person wrote is enforced, or the module does not start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from paddock.errors import PlanError, PlanProblem, PolicyRefusedError, Refusal
from paddock.plan.families import EXCLUDED_SECRETS, is_exclusion
from paddock.plan.limits import LIMITS, WITH_NAMESPACES, Limit, Mechanism, at_level
from paddock.plan.model import ModuleEntry
from paddock.plan.permissions import grants_of
from paddock.plan.problems import path_text
from paddock.policy.limits import ResourceLimits
from paddock.policy.rule import refusal_by
from paddock_sandbox.profile import IsolationLevel

LEVELS_WITH_NAMESPACES: Final = WITH_NAMESPACES


@dataclass(frozen=True, slots=True)
class Enforcement:
    """How a limit is enforced: by `mechanism`, or by none, and then why not and what would help."""

    limit: str
    mechanism: Mechanism | Literal[""]
    why: str = ""
    fix: str = ""

    @property
    def holds(self) -> bool:
        """Whether anything enforces the limit."""
        return bool(self.mechanism)


def enforcement(level: IsolationLevel, cgroups: Collection[str]) -> dict[str, Enforcement]:
    """Return how each limit is enforced at `level`, where groups with the controllers `cgroups` can be made."""
    if level == "bwrap":
        cgroups = ()  # in bubblewrap's namespaces no group can be made
    return {name: _enforced(name, row, level, cgroups) for name, row in LIMITS.items()}


def _enforced(name: str, row: Limit, level: IsolationLevel, cgroups: Collection[str]) -> Enforcement:
    if row.grouped and row.controller in cgroups:
        return Enforcement(name, row.grouped)
    if mechanism := row.mechanism_at(level):
        return Enforcement(name, mechanism)
    if row.grouped and level == "bwrap":
        fix = f"{at_level('ns')}, where control groups can be made"
        return Enforcement(name, "", "in bubblewrap's namespaces no control group can be made", fix)
    return Enforcement(name, "", row.why, row.fix)


def unenforced(
    entry: ModuleEntry, limits: ResourceLimits, level: IsolationLevel, cgroups: Collection[str]
) -> tuple[PlanProblem, ...]:
    """Return a problem for each limit or exclusion that a person wrote and nothing enforces, in the plan's words."""
    limited = (
        PlanProblem(
            path_text(entry.path, "limits", one.limit),
            f"cannot be enforced at isolation level `{level}`: {one.why}",
            f"{one.fix}, or leave the limit out" if one.fix else "leave the limit out",
        )
        for one in enforcement(level, cgroups).values()
        if one.limit in limits.written and not one.holds
    )
    return (*_unheld_exclusions(entry, level), *limited)


def _unheld_exclusions(entry: ModuleEntry, level: IsolationLevel) -> Iterator[PlanProblem]:
    """Yield a problem for each exclusion of an entry that takes mounts, but for the presets' own."""
    if level in LEVELS_WITH_NAMESPACES:
        return
    for number, word in enumerate(grants_of(entry.permissions).read):
        if is_exclusion(word) and word != EXCLUDED_SECRETS:
            yield PlanProblem(
                path_text(entry.path, "permissions", "read", number),
                f"`{word}` cannot be enforced at isolation level `{level}`, which leaves nothing out of a folder",
                f"{at_level('ns')} or `bwrap`, or grant the folders beside it and not the one around it",
            )


def require_enforced(
    entry: ModuleEntry, limits: ResourceLimits, level: IsolationLevel, cgroups: Collection[str]
) -> None:
    """Refuse limits from the plan or a policy, and exclusions, that would not hold.

    Raises:
        PolicyRefusedError: a policy sets a limit that no mechanism enforces here.
        PlanError: with the place of each, why, and what to do.
    """
    problems = unenforced(entry, limits, level, cgroups)
    refusals = tuple(_beyond_policy(entry, limits, level, cgroups))
    if refusals:
        raise PolicyRefusedError(refusals, problems=problems)
    if problems:
        raise PlanError(problems, code="UnenforcedLimitError")


def _beyond_policy(
    entry: ModuleEntry, limits: ResourceLimits, level: IsolationLevel, cgroups: Collection[str]
) -> Iterator[Refusal]:
    table = enforcement(level, cgroups)
    for name, rule in limits.capped:
        one = table[name]
        if not one.holds:
            excuse = f'name it in the rule\'s file: allow_unenforced = ["{name}"]'
            is_written = name in limits.written
            yield refusal_by(
                rule,
                path_text(entry.path, "limits", name) if is_written else entry.path,
                f"{'' if is_written else f'`{name}` '}is capped by a policy, and cannot be enforced at isolation level "
                f"`{level}`: {one.why}",
                f"{one.fix}, or {excuse}" if one.fix else excuse,
            )
