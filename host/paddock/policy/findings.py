"""What is found about one module on the way to a decision: what stands in its way, and which rules were looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

from paddock.errors import PlanProblem, Refusal
from paddock.plan.problems import NotAcceptedError
from paddock.policy.rule import ConsultedRule, Rule


@dataclass(slots=True)
class PolicyFindings:
    """Refusals by a rule, mistakes of the plan (of `grants`, those about what is granted), and rules with outcomes."""

    refusals: list[Refusal] = field(default_factory=list)
    problems: list[PlanProblem] = field(default_factory=list)
    grants: list[PlanProblem] = field(default_factory=list)
    consulted: list[ConsultedRule] = field(default_factory=list)

    def refuse(self, path: str, message: str, hint: str, rule: Rule) -> None:
        """Note that a rule refuses what the plan asks for at `path`."""
        self.refusals.append(refusal_by(rule, path, message, hint))

    def problem(self, path: str, error: NotAcceptedError) -> None:
        """Note a mistake of the plan at `path`."""
        self.problems.append(PlanProblem(path, error.problem, error.accepted))

    def grant_problem(self, path: str, error: NotAcceptedError) -> None:
        """Note a grant at `path` that cannot be given as it is written."""
        self.grants.append(PlanProblem(path, error.problem, error.accepted))

    def consult(self, rule: Rule, outcome: str) -> None:
        """Note that a rule was looked at."""
        self.consulted.append(ConsultedRule(rule, outcome))

    def is_against(self, rule: Rule) -> bool:
        """Whether a rule has refused anything."""
        known = (rule.text, rule.location.file, rule.location.line)
        return any((one.rule, one.rule_file, one.rule_line) == known for one in self.refusals)


def refusal_by(rule: Rule, path: str, message: str, hint: str) -> Refusal:
    """Return the refusal, by a rule, of what the plan asks for at `path`."""
    return Refusal(path, message, hint, rule.text, rule.location.file, rule.location.line)
