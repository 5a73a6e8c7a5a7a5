"""Perform every attack: once outside, and once at each level of isolation that this machine supports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from anyio import to_thread

from paddock.errors import IsolationUnavailableError
from paddock.selftest.attack import Attack, Sign
from paddock.selftest.attack_session import AttackSession, perform_to_the_end
from paddock.selftest.attacks import CATALOGUE
from paddock.selftest.control import OutsideControl, OutsideResult
from paddock.selftest.outcome import AttackOutcome, Verdict
from paddock.selftest.testbed.testbed import AttackTestbed
from paddock.selftest.unconfined import UnconfinedAttackers
from paddock_sandbox.profile import IsolationLevel

LEVELS: Final[tuple[IsolationLevel, ...]] = ("ns", "bwrap", "landlock")
"""The levels that isolate, the strongest first."""

ReportProgress = Callable[[str], None]
"""Gets a description of the present step, in a few words."""


@dataclass(frozen=True, slots=True)
class AttackTrial:
    """One attack: its result outside, and at each level."""

    attack: Attack
    control: OutsideResult
    outcomes: Mapping[IsolationLevel, AttackOutcome]

    def as_dict(self) -> dict[str, object]:
        """Return it as data for JSON."""
        return {
            "name": self.attack.name,
            "family": self.attack.family,
            "tries": self.attack.tries,
            "outside": {
                "shown": self.control.shown,
                "excuses": list(self.control.expected_failures),
                "problem": self.control.problem,
            },
            "levels": {level: outcome.as_dict() for level, outcome in self.outcomes.items()},
        }


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run; `unreachable` are the unavailable levels, each with the reason."""

    trials: tuple[AttackTrial, ...]
    levels: tuple[IsolationLevel, ...]
    unreachable: Mapping[IsolationLevel, IsolationUnavailableError] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """Each attack that was not contained, or that should have proved something and did not."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        for trial in self.trials:
            if trial.control.problem:
                yield f"`{trial.attack.name}` shows nothing: {trial.control.problem}"
                continue
            for level, outcome in trial.outcomes.items():
                if outcome.verdict is Verdict.SUCCEEDED:
                    yield f"`{trial.attack.name}` was not refused at level {level}: {outcome.by}"
                elif outcome.verdict is Verdict.UNCLEAR:
                    yield f"`{trial.attack.name}` shows nothing at level {level}: {outcome.by}"


class AttackRunner:
    """Every attack of a catalogue, at some levels.

    Args:
        levels: the levels to try; an unavailable one is part of the result, and no error.
        attacks: which attacks; all by default.
        report: gets a description of the present step.
    """

    def __init__(
        self,
        levels: Sequence[IsolationLevel] = LEVELS,
        attacks: Sequence[Attack] = CATALOGUE,
        report: ReportProgress = lambda doing: None,
    ) -> None:
        self._levels = levels
        self._attacks = attacks
        self._report = report

    async def run(self) -> Result:
        """Perform all attacks, one after the other, and leave nothing of them behind.

        Raises:
            PaddockError: an attacker could not be started at an available level.
        """
        with AttackTestbed() as testbed:
            with closing(UnconfinedAttackers(testbed)) as attackers:
                outside = OutsideControl(testbed, attackers)
                controls = {attack.name: await self._outside(attack, outside) for attack in self._attacks}
            outcomes: dict[IsolationLevel, dict[str, AttackOutcome]] = {}
            unreachable: dict[IsolationLevel, IsolationUnavailableError] = {}
            for level in self._levels:
                try:
                    outcomes[level] = await self._inside(level, testbed, controls)
                except IsolationUnavailableError as error:
                    unreachable[level] = error
        trials = tuple(
            AttackTrial(
                attack,
                controls[attack.name],
                {level: found[attack.name] for level, found in outcomes.items() if attack.name in found},
            )
            for attack in self._attacks
        )
        return Result(trials, tuple(outcomes), unreachable)

    async def _outside(self, attack: Attack, outside: OutsideControl) -> OutsideResult:
        self._report(f"outside: {attack.name}")
        # Awaited also when cancelled: it is bounded, and a thread cannot be stopped.
        return await to_thread.run_sync(outside.perform, attack)

    async def _inside(
        self, level: IsolationLevel, testbed: AttackTestbed, controls: Mapping[str, OutsideResult]
    ) -> dict[str, AttackOutcome]:
        """Return the outcome of each attack at one level.

        Raises:
            IsolationUnavailableError: the level is unavailable here.
        """
        self._report(f"{level}: starting")
        meant = [attack for attack in self._attacks if level in attack.only_at]
        together = [attack for attack in meant if attack.sign is not Sign.LIFE]
        outcomes: dict[str, AttackOutcome] = {}
        async with AttackSession(level, testbed, together) as attack_session:
            for attack in together:
                self._report(f"{level}: {attack.name}")
                outcomes[attack.name] = await attack_session.perform(attack)
        to_the_end = [attack for attack in meant if attack.sign is Sign.LIFE]
        if to_the_end:
            self._report(f"{level}: {', '.join(attack.name for attack in to_the_end)}")
            outcomes |= await perform_to_the_end(to_the_end, level, testbed)
        return {name: _given(controls[name], outcome) for name, outcome in outcomes.items()}


def _given(control: OutsideResult, outcome: AttackOutcome) -> AttackOutcome:
    """Return the outcome, or that it proves nothing where the act is not possible outside either."""
    if outcome.verdict is Verdict.SUCCEEDED or control.proves_something:
        return outcome
    why = control.problem or "; ".join(control.expected_failures)
    return AttackOutcome(Verdict.UNTRIED, f"it cannot be shown outside: {why}", outcome.evidence)
