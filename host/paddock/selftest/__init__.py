"""Attack the isolation of modules for real on this machine, and report the result of each attack."""

from __future__ import annotations

from paddock.selftest.attack import Attack
from paddock.selftest.attacks import CATALOGUE
from paddock.selftest.outcome import AttackOutcome, Verdict
from paddock.selftest.runner import LEVELS, AttackRunner, AttackTrial, Result

__all__ = ["CATALOGUE", "LEVELS", "Attack", "AttackRunner", "AttackOutcome", "Result", "AttackTrial", "Verdict"]
