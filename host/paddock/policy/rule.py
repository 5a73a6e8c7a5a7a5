"""What a decision rests on: rules as written, their refusals, and the levels that need no further permission."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from paddock.errors import PlanProblem, Refusal
from paddock.plan.problems import NotAcceptedError
from paddock.plan.source_map import Location
from paddock_sandbox.profile import ISOLATION_LEVELS, IsolationLevel

BUILT_IN: Final = Location("built in")
"""The place of rules that are in no file."""

_MAX_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as written at `location`, or in words where it is built in."""

    location: Location
    text: str

    def describe(self) -> str:
        """Return the rule as one line of text."""
        return f"{self.location.text}: {self.text}"


@dataclass(frozen=True, slots=True)
class ConsultedRule:
    """A rule that was examined for a decision, and its outcome."""

    rule: Rule
    outcome: str


def written_list(values: Iterable[object]) -> str:
    """Return a list as a rule contains it, cut where it is long."""
    texts = [f'"{value}"' for value in values]
    rest = len(texts) - _MAX_SHOWN
    return f"[{', '.join(texts[:_MAX_SHOWN])}{f', and {rest} more' if rest > 0 else ''}]"


@dataclass(slots=True)
class PolicyFindings:
    """Refusals by a rule, mistakes of the plan (of `grants`, those about what is granted), and rules with outcomes."""

    refusals: list[Refusal] = field(default_factory=list)
    problems: list[PlanProblem] = field(default_factory=list)
    grants: list[PlanProblem] = field(default_factory=list)
    consulted: list[ConsultedRule] = field(default_factory=list)

    def refuse(self, path: str, message: str, hint: str, rule: Rule) -> None:
        """Note that a rule refuses the plan's request at `path`."""
        self.refusals.append(refusal_by(rule, path, message, hint))

    def problem(self, path: str, error: NotAcceptedError) -> None:
        """Note a mistake of the plan at `path`."""
        self.problems.append(PlanProblem(path, error.problem, error.accepted))

    def grant_problem(self, path: str, error: NotAcceptedError) -> None:
        """Note a grant at `path` that cannot be given as it is written."""
        self.grants.append(PlanProblem(path, error.problem, error.accepted))

    def consult(self, rule: Rule, outcome: str) -> None:
        """Note that a rule was examined."""
        self.consulted.append(ConsultedRule(rule, outcome))

    def is_against(self, rule: Rule) -> bool:
        """Whether a rule has refused anything."""
        known = (rule.text, rule.location.file, rule.location.line)
        return any((one.rule, one.rule_file, one.rule_line) == known for one in self.refusals)


def refusal_by(rule: Rule, path: str, message: str, hint: str) -> Refusal:
    """Return the refusal, by a rule, of the plan's request at `path`."""
    return Refusal(path, message, hint, rule.text, rule.location.file, rule.location.line)


FLOOR: Final[tuple[IsolationLevel, ...]] = ("ns", "bwrap")
"""The levels that a module may run at without further permission."""

_BUILT_IN: Final = Rule(BUILT_IN, "minimum_isolation = bwrap, unless an accepted plan or a flag says less")


@dataclass(frozen=True, slots=True)
class Floor:
    """The levels that need no further permission, the strongest first, and the rule that sets them.

    `is_fixed`: a policy set them, and neither an accepted plan nor a flag lowers them.
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
        """Return the refusal of a level below a fixed floor, requested at `path` in the plan, or by a flag."""
        return refusal_by(
            self.rule,
            path,
            f"isolation level `{level}` is weaker than the minimum, `{self.levels[-1]}`",
            f"run it at `{self.levels[-1]}`: no plan and no flag lowers a minimum of the policy",
        )
