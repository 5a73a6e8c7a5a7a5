"""Find what a policy file bounds by one rule and leaves open by a more specific one.

Within a file only the most specific rule about a source applies, as a whole. So a rule that only sets a limit also
takes the bounds of a wider rule away from its modules, which few people mean. Nothing is decided here: the file says
what it says. Another file takes nothing away, since each file bounds by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from paddock.errors import PlanProblem
from paddock.plan.permissions import FAMILIES
from paddock_sandbox.profile import ISOLATION_LEVELS

if TYPE_CHECKING:
    from paddock.policy.files.policy_file import ModuleRule, PolicyFile


def left_open(file: PolicyFile) -> tuple[PlanProblem, ...]:
    """Return a warning for each rule and each wider one whose bounds it takes away, at the rule's line."""
    return tuple(warning for rule in file.modules for warning in _warnings(file, rule))


def _warnings(file: PolicyFile, rule: ModuleRule) -> Iterator[PlanProblem]:
    wider = [one for one in file.modules if one.match.literal < rule.match.literal]
    named: set[str] = set()
    for one in sorted(wider, key=lambda one: -one.match.literal):
        lost = [name for name in _lost(file, rule, one) if name not in named]
        if not lost or not rule.match.overlaps(one.match):
            continue
        named.update(lost)
        path, line = f"{rule.path}.match", file.positions.line_of(f"{one.path}.match")
        place = f"line {line} (`{one.match.text}`)" if line is not None else f"the rule for `{one.match.text}`"
        yield PlanProblem(
            path,
            f"modules from `{rule.match.text}` are not bounded by {place}: {', '.join(lost)}",
            "only the most specific rule counts: repeat in it what is to bound these modules too",
            file.positions.line_of(path),
        )


def _lost(file: PolicyFile, rule: ModuleRule, wider: ModuleRule) -> Iterator[str]:
    """Yield the families, limits and the level that `wider` bounds, and neither `rule` nor the whole file does."""
    kept = rule.caps.capped if rule.caps is not None else frozenset()
    capped = wider.caps.capped if wider.caps is not None else frozenset()
    yield from (family for family in FAMILIES if family in capped - kept)
    for name, most in wider.limits:
        of_all = getattr(file.max_limits, name)
        if most is not None and getattr(rule.limits, name) is None and (of_all is None or of_all > most):
            yield name
    if wider.level is not None and rule.level is None:
        levels = ISOLATION_LEVELS[: ISOLATION_LEVELS.index(wider.level) + 1]
        if file.minimum_isolation not in levels:
            yield "level"
