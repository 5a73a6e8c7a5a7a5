"""Judge the outcome of an attack at one level, from the observations of the attacker, the host and the stage.

Pure functions over evidence. The attacker's own report never proves a refusal: a mark on the stage, a host that stood
still or a process that lives on is a success regardless of the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from paddock.selftest.attack import Attack, Sign
from paddock.selftest.control import OutsideAttempt, told
from paddock.workers.exit_report import ExitReport
from paddock_sandbox.profile import IsolationLevel

LAG_MAX: Final = 0.5  # seconds for which the host may stand still; a busy machine alone delays it by tenths
KEPT_MAX: Final = 1 << 20  # bytes of a flood that the host may keep


class Verdict(StrEnum):
    """The outcome of an attack, in the words of the reports."""

    REFUSED = "refused"
    CONTAINED = "contained"
    LEAKS = "leaks"
    SUCCEEDED = "NOT REFUSED"
    UNTRIED = "not tried"  # for a reason: the machine or the level lacks the subject of the attack
    UNCLEAR = "unclear"

    @property
    def is_fine(self) -> bool:
        """Whether isolation kept its promise."""
        return self in (Verdict.REFUSED, Verdict.CONTAINED, Verdict.LEAKS)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The observations of an attack inside.

    `answer` is the attacker's report, if it survived; `error` the host's error in its place, and `report` the end of
    the module. `marks` are those on the stage; `lag` is how long the host stood still.
    """

    answer: object = None
    error: str = ""
    report: ExitReport | None = None
    marks: Sequence[str] = ()
    lag: float = 0.0
    printed_bytes: int = 0
    kept_bytes: int = 0
    lives_on: bool = False


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """The outcome of an attack, and what refused it, ended it or let it through."""

    verdict: Verdict
    by: str
    evidence: Evidence = field(default_factory=Evidence)

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        report = self.evidence.report
        return {
            "verdict": self.verdict.value,
            "by": self.by,
            "lag_seconds": round(self.evidence.lag, 3),
            "report": None if report is None else report.as_dict(),
        }


def judge(attack: Attack, level: IsolationLevel, evidence: Evidence) -> AttackOutcome:
    """Return the outcome of the attack."""
    verdict, by = _judged(attack, evidence)
    if verdict is Verdict.SUCCEEDED and level in attack.known:
        verdict, by = Verdict.LEAKS, attack.known[level]
    return AttackOutcome(verdict, by, evidence)


def _judged(attack: Attack, evidence: Evidence) -> tuple[Verdict, str]:
    harm = list(evidence.marks)
    if evidence.lag > LAG_MAX:
        harm.append(f"the host stood still for {evidence.lag:.1f} s")
    if evidence.kept_bytes > KEPT_MAX:
        harm.append(f"the host kept {evidence.kept_bytes} bytes of it")
    if evidence.lives_on:
        harm.append("something of it lives on")
    if harm:
        return Verdict.SUCCEEDED, "; ".join(harm)
    if evidence.report is not None:
        return _ended(attack, evidence.report)
    if evidence.error:
        return Verdict.UNCLEAR, evidence.error
    try:
        return _answered(attack, evidence, OutsideAttempt.all_of(evidence.answer))
    except ValueError as error:
        return Verdict.UNCLEAR, str(error)


def _ended(attack: Attack, report: ExitReport) -> tuple[Verdict, str]:
    by = report.reason.value
    if report.limit is not None:
        by = f"{report.limit.name} {report.limit.configured} ({report.limit.mechanism})"
    elif report.signal_name is not None:
        by += f", {report.signal_name}"
    if report.reason in attack.ends:
        return Verdict.CONTAINED, f"ended: {by}"
    return Verdict.UNCLEAR, f"the attacker ended for another reason: {report.describe()}"


def _answered(attack: Attack, evidence: Evidence, attempts: Sequence[OutsideAttempt]) -> tuple[Verdict, str]:
    broken = [attempt for attempt in attempts if attempt.outcome == "broken"]
    if broken:
        return Verdict.UNCLEAR, f"failed, and not by being refused: {told(broken)}"
    match attack.sign:
        case Sign.MARKS:
            return Verdict.REFUSED, "nothing was reached"
        case Sign.LAG:
            return Verdict.CONTAINED, f"the host went on, and paused for {evidence.lag * 1000:.0f} ms"
        case Sign.LIFE:
            return Verdict.CONTAINED, "nothing of it is left"
        case Sign.KEPT:
            return Verdict.CONTAINED, f"{evidence.kept_bytes >> 10} KiB kept of {evidence.printed_bytes >> 20} MiB"
    worked = [attempt for attempt in attempts if attempt.outcome == "worked"]
    if worked:
        return Verdict.SUCCEEDED, told(worked)
    odd = [attempt for attempt in attempts if attempt.outcome != "refused" or attempt.word not in attack.refusals]
    if odd or not attempts:
        return Verdict.UNCLEAR, f"failed, and not by being refused: {told(odd) or 'it has no ways'}"
    return Verdict.REFUSED, ", ".join(sorted({attempt.word for attempt in attempts}))
