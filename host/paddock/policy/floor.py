"""The levels of isolation that need nobody's leave, and the rule that says so: built in, or the strictest policy's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from paddock.errors import Refusal
from paddock.policy.findings import refusal_by
from paddock.policy.rule import BUILT_IN, Rule
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel

FLOOR: Final[tuple[IsolationLevel, ...]] = ("ns", "bwrap")
"""The levels that need nobody's leave."""

_BUILT_IN: Final = Rule(BUILT_IN, "minimum_isolation = bwrap, unless an accepted plan or a flag says less")


@dataclass(frozen=True, slots=True)
class Floor:
    """The levels that need nobody's leave, the strongest first, and the rule that says so.

    `is_fixed`: a policy said so, and neither an accepted plan nor a flag lowers it.
    """

    levels: tuple[IsolationLevel, ...] = FLOOR
    rule: Rule = _BUILT_IN
    is_fixed: bool = False

    @classmethod
    def at(cls, level: IsolationLevel, rule: Rule) -> Self:
        """Return the floor that a policy sets at `level`."""
        return cls(ISOLATION_LEVELS[: ISOLATION_LEVELS.index(level) + 1], rule, is_fixed=True)

    @classmethod
    def strictest(cls, floors: Iterable[Self]) -> Self:
        """Return the strictest of the floors that policies set; the built-in one, if there are none."""
        return min(floors, key=lambda floor: len(floor.levels), default=cls())

    def refusal(self, level: IsolationLevel, path: str) -> Refusal:
        """Return the refusal of a level below a fixed floor, asked for at `path` in the plan, or by a flag."""
        return refusal_by(
            self.rule,
            path,
            f"isolation level `{level}` is weaker than the minimum, `{self.levels[-1]}`",
            f"run it at `{self.levels[-1]}`: no plan and no flag lowers a minimum of the policy",
        )
