"""What a plan may ask for that nobody accepted: the working directory, and nothing that is the operator's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from paddock.plan.problems import path_text

from .decision import Asked, Trust
from .findings import Findings
from .levels import Floor
from .path_rules import PathRule
from .rule import BUILT_IN, Rule

_UNACCEPTED: Final = Rule(
    BUILT_IN,
    "a plan that nobody accepted gets no network, no secrets, no variables, no weaker isolation, and no path outside "
    "the working directory",
)
_ACCEPT: Final = "`--trust-plan` accepts what the plan says, and so does saying yes to `paddock run` on a terminal"
_TAKES_TRUST: Final = "takes a plan that you accepted"


def judge_trust(
    asked: Asked, trust: Trust, working_dir: Path, floor: Floor, findings: Findings
) -> tuple[PathRule, ...]:
    """Note what an entry asks for that takes an accepted plan, and return the rules about paths that follow."""
    rule = trust.rule or _UNACCEPTED
    if trust.accepted:
        if trust.rule is not None:
            findings.consult(rule, "the plan is accepted")
        return ()
    findings.consult(rule, "the plan is not accepted")
    for grant in asked.grants():
        is_of_the_operators = grant.family in ("net", "secrets") or grant.passes_on
        if is_of_the_operators and grant.given is None:
            findings.refuse(grant.path, f"{grant.text} {_TAKES_TRUST}", _ACCEPT, rule)
    level = asked.entry.isolation
    if level is not None and level not in floor.levels and level != asked.named and not floor.is_fixed:
        findings.refuse(
            path_text(asked.entry.path, "isolation"),
            f"isolation level `{level}` {_TAKES_TRUST}",
            f"{_ACCEPT}; `--isolation {level}` accepts this level alone",
            rule,
        )
    said = f"lies outside the working directory `{working_dir}`, which {_TAKES_TRUST}"
    families = frozenset({"read", "write"})
    return (PathRule(families, (working_dir,), rule, said, _ACCEPT, binds_given=False),)
