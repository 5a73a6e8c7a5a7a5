"""Attacks on the isolation of modules, performed for real on the machine at hand, and what became of each."""

from __future__ import annotations

from .attack import Attack
from .campaign import LEVELS, Campaign, Result, Trial
from .catalogue import CATALOGUE
from .outcome import Outcome, Verdict

__all__ = ["CATALOGUE", "LEVELS", "Attack", "Campaign", "Outcome", "Result", "Trial", "Verdict"]
