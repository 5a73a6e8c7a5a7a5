"""Perform an attack outside, in a process without restrictions, to show that the act is possible at all.

Only then does a refusal inside prove anything: isolation caused it, and not a missing program, a closed port or a
defect of the attack.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from paddock.selftest.attack import Attack, Outside
from paddock.selftest.testbed.observers import GATES
from paddock.selftest.testbed.testbed import AttackTestbed
from paddock.selftest.unconfined import UnconfinedAttacker, UnconfinedAttackers

_ANSWER_SECONDS: Final = 20.0  # for one attack; reached only if it hangs
_ENDLESS_SECONDS: Final = 0.4  # a process that runs longer counts as not ending


@dataclass(frozen=True, slots=True)
class OutsideAttempt:
    """The result of one way of an attack: it `worked`, was `refused` by `word`, or is `broken`."""

    way: str
    outcome: str
    word: str
    how: str

    @classmethod
    def all_of(cls, answer: Any) -> tuple[OutsideAttempt, ...]:
        """Return the attempts in an attacker's report.

        Raises:
            ValueError: this is no attacker's report.
        """
        try:
            return tuple(cls(*(str(way[name]) for name in ("way", "outcome", "word", "how"))) for way in answer["ways"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"no answer of an attack: {error!r}") from error


def told(attempts: Iterable[OutsideAttempt]) -> str:
    """Return what was attempted in words."""
    return "; ".join(f"{attempt.way}: {attempt.how}" for attempt in attempts)


@dataclass(frozen=True, slots=True)
class OutsideResult:
    """The result of an attack outside.

    `shown` describes in words what worked, empty if nothing did. `expected_failures` are the reasons for which some of
    it, or all, could not be shown on this machine; `problem` is why it should have worked and did not.
    """

    shown: str
    expected_failures: tuple[str, ...] = ()
    problem: str = ""

    @property
    def proves_something(self) -> bool:
        """Whether a refusal inside proves anything."""
        return bool(self.shown) and not self.problem


class OutsideControl:
    """Performs attacks outside, on one testbed, by attackers that are started there."""

    def __init__(self, testbed: AttackTestbed, attackers: UnconfinedAttackers) -> None:
        self._testbed = testbed
        self._attackers = attackers

    def perform(self, attack: Attack) -> OutsideResult:
        """Perform the attack, and leave the testbed as it was; takes as long as the act."""
        testbed = self._testbed
        testbed.renew()
        if attack.saves is not None:
            testbed.files.save(attack.saves(testbed))
        try:
            with self._attackers.begin(_order(attack, testbed)) as attacker:
                match attack.outside:
                    case Outside.RUNS_ON:
                        control = _run_on(attacker)
                    case Outside.LIVES_ON:
                        control = _live_on(attack, attacker, testbed)
                    case _:
                        control = _judged(attack, attacker.answer(_ANSWER_SECONDS))
            if attack.marks and control.proves_something and not testbed.marks():
                return OutsideResult("", problem="it left no mark on the stage, so none would be noticed inside")
            return control
        except (ConnectionError, TimeoutError) as error:
            return OutsideResult("", problem=str(error))
        finally:
            testbed.renew()


def _judged(attack: Attack, said: str) -> OutsideResult:
    try:
        attempts = OutsideAttempt.all_of(json.loads(said))
    except ValueError as error:
        return OutsideResult("", problem=f"its answer is none: {error}")
    worked = [attempt for attempt in attempts if attempt.outcome == "worked"]
    failed = [attempt for attempt in attempts if attempt.outcome != "worked"]
    unexcused = [attempt for attempt in failed if not attack.reason_for(attempt.word)]
    expected_failures = tuple(dict.fromkeys(filter(None, (attack.reason_for(attempt.word) for attempt in failed))))
    is_enough = not unexcused or (worked and attack.outside is Outside.ANSWERS_ONCE)
    problem = "" if is_enough else f"outside too, {told(unexcused)}"
    return OutsideResult(", ".join(attempt.way for attempt in worked), expected_failures, problem)


def _run_on(attacker: UnconfinedAttacker) -> OutsideResult:
    try:
        said = attacker.answer(_ENDLESS_SECONDS)
    except TimeoutError:
        return OutsideResult(f"still at it after {_ENDLESS_SECONDS:g} s")
    return OutsideResult("", problem=f"it ended by itself: {said}")


def _live_on(attack: Attack, attacker: UnconfinedAttacker, testbed: AttackTestbed) -> OutsideResult:
    """Let the attacker come to its end, examine what is left of it, and end that as well."""
    said = attacker.answer(_ANSWER_SECONDS)
    daemon = said.partition("daemon ")[2].partition('"')[0]
    attacker.wait(_ENDLESS_SECONDS)
    attacker.send_signal(signal.SIGTERM)
    time.sleep(_ENDLESS_SECONDS / 4)  # for the signal to have no effect
    lives = testbed.is_lock_held(attack.name)
    if daemon.isdigit():
        os.kill(int(daemon), signal.SIGKILL)
    if not lives:
        return OutsideResult("", problem=f"nothing of it lives on: {said}")
    return OutsideResult("lives on after its end")


def _order(attack: Attack, testbed: AttackTestbed) -> dict[str, object]:
    return {
        **attack.order(testbed, **attack.outside_arguments(testbed)),
        "before": attack.before,
        "and_end": attack.outside is Outside.LIVES_ON,
        "paths": sys.path,  # for attacks on a session, for which the module contract's own code stands in
        "gates": list(GATES),
    }
